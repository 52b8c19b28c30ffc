package usher

import "context"

// A Decider decides requests. It is safe for concurrent use.
//
// An error means that no decision was reached; the door then applies its failure
// mode. A rule that fails is not an error but a [Finding].
type Decider interface {
	Decide(context.Context, *Request) (Decision, error)
}

// DeciderFunc is a function as a [Decider].
type DeciderFunc func(context.Context, *Request) (Decision, error)

// Decide calls f.
func (f DeciderFunc) Decide(ctx context.Context, r *Request) (Decision, error) { return f(ctx, r) }

package usher

import "context"

// A Decider decides requests. It is safe for concurrent use.
//
// An error means that there is no decision; the door then applies its failure policy. A rule that
// fails is not an error but a [Finding].
type Decider interface {
	Decide(context.Context, *Request) (Decision, error)
}

// DeciderFunc adapts a function to a [Decider].
type DeciderFunc func(context.Context, *Request) (Decision, error)

// Decide calls f.
func (f DeciderFunc) Decide(ctx context.Context, r *Request) (Decision, error) { return f(ctx, r) }

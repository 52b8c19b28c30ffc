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

// A FailurePolicy is how to handle a request when a rule fails or, at a door, if there is no decision.
// The zero value is [Fail], unless a rule leaves the choice to the engine.
type FailurePolicy string

// The failure policies.
const (
	// Fail denies the request; for admission, with code 500.
	Fail FailurePolicy = "Fail"
	// Ignore goes on as if the rule, or the door, had not been there.
	Ignore FailurePolicy = "Ignore"
)

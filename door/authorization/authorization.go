// Package authorization is the door for authorization webhooks: it answers the
// SubjectAccessReviews of an API server, v1 and v1beta1, each in the version it was asked in.
//
//	http.Handle("/authorize", authorization.Authorize(d, authorization.Options{}))
//	http.Handle("/authorize/deny", authorization.Deny(d, authorization.Options{}))
//	http.Handle("/authorize/allow", authorization.Allow(d, authorization.Options{}))
//
// What could not be decided gets the status 503, never an answer: an API server then does
// what its failurePolicy says, at once and without remembering it. It would remember an
// answer without opinion, and never look at the error in it. There is no Retry-After, which
// API servers follow with ten calls and more for each request.
package authorization

import (
	"log/slog"
	"net/http"
	"time"

	usher "github.com/usher-dev/usher"
)

// Options are the limits of a handler. The zero value is ready to use.
type Options struct {
	// MaxBody is the largest review that is decided, in bytes; 0 means 1 MiB.
	MaxBody int64
	// Timeout is how long a decision may take at most; 0 means 500 ms. API servers that are
	// less patient say so, in the timeout parameter, and get their answer a little earlier.
	Timeout time.Duration
	// MaxInFlight is how many reviews this handler decides at the same time; the others are
	// turned away. 0 means 1,000, negative without limit.
	MaxInFlight int
	// Self is the user that this process is to its API server; empty means none. It may
	// read policies, whatever they say.
	Self string
	// Shadow makes every answer one without opinion, but those to Self, and none an error
	// that the caller is not to blame for. The decider is asked all the same.
	Shadow bool
	// Log gets what goes wrong; nil means slog.Default.
	Log *slog.Logger
}

// Authorize returns the handler of a webhook that allows and denies.
func Authorize(d usher.Decider, o Options) http.Handler { return newHandler(d, "", o) }

// Deny returns the handler of a webhook that denies or has no opinion. It belongs before
// all authorizers that allow.
func Deny(d usher.Decider, o Options) http.Handler { return newHandler(d, usher.Deny, o) }

// Allow returns the handler of a webhook that allows or has no opinion. It belongs behind
// the others: an API server that cannot reach it then loses nothing that they allow.
func Allow(d usher.Decider, o Options) http.Handler { return newHandler(d, usher.Allow, o) }

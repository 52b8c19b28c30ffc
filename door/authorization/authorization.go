// Package authorization is the door for authorization webhooks: it answers the
// SubjectAccessReviews of an API server, v1 and v1beta1, each in the version it was asked in.
//
//	http.Handle("/authorize", authorization.Authorize(d, authorization.Options{}))
//	http.Handle("/authorize/deny", authorization.Deny(d, authorization.Options{}))
//	http.Handle("/authorize/allow", authorization.Allow(d, authorization.Options{}))
//
// If there is no decision, the status is 503 and there is no review in the response: an API server
// then applies its failurePolicy at once, and does not cache the result. It would cache a response
// without opinion and ignore the error in it. There is no Retry-After header: API servers follow it
// with ten and more calls for each request.
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
	// Timeout is how long a decision may take at most; 0 means 500 ms. API servers with a shorter
	// timeout send it in the timeout parameter; their response comes shortly before it ends.
	Timeout time.Duration
	// MaxInFlight is how many reviews this handler decides at the same time; the others get 503. 0
	// means 1,000, negative without limit.
	MaxInFlight int
	// Self is the user of this process at its API server; empty means none. It may always read
	// policies.
	Self string
	// Shadow responds without opinion to every caller but Self, and without an error that is not
	// the caller's. The decider is called nevertheless.
	Shadow bool
	// Log receives errors; nil means slog.Default.
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

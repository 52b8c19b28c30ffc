// Package admission is the door for admission webhooks: it answers the AdmissionReviews
// of an API server, v1 and v1beta1, each in the version it was asked in.
//
//	http.Handle("/mutate", admission.Mutate(d, admission.Options{}))
//	http.Handle("/validate", admission.Validate(d, admission.Options{}))
//
// It fails closed: a [usher.Decider] that returns an error or panics, and a review that is too
// large or too deeply nested, give a denial that says so. The user gets that denial regardless of
// the webhook's failurePolicy. What is not a review gets a 4xx with one sentence of plain text.
package admission

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	usher "github.com/usher-dev/usher"
)

// Options are the limits of a handler. The zero value is ready to use.
type Options struct {
	// MaxBody is the largest review that is decided, in bytes; 0 means 32 MiB. An API
	// server that takes requests of 3 MiB can send reviews of more than 20.
	MaxBody int64
	// Timeout is how long a decision may take when the request does not say; 0 means 10
	// seconds. API servers do say, in the timeout parameter, and get their answer a little
	// earlier. A negative Timeout sets no deadline at all, whatever the request says: the
	// context then ends when the caller hangs up.
	Timeout time.Duration
	// Accept says whether a review is answered here, once it has been read: its error becomes
	// HTTP status 403, which is no decision. It may add to the request what the review does
	// not say. nil accepts every review.
	Accept func(context.Context, *usher.Request) error
	// AlwaysAllow answers that the request is allowed, without a patch, whatever the decision is, and if
	// there is none. It is for deciders that only observe.
	AlwaysAllow bool
	// Log gets what goes wrong; nil means slog.Default.
	Log *slog.Logger
}

// Mutate returns the handler of a mutating webhook.
func Mutate(d usher.Decider, o Options) http.Handler { return newHandler(d, usher.Mutate, o) }

// Validate returns the handler of a validating webhook. It never answers with a patch.
func Validate(d usher.Decider, o Options) http.Handler { return newHandler(d, usher.Validate, o) }

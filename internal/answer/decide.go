package answer

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"runtime/debug"

	usher "github.com/usher-dev/usher"
)

// errPanic is all that a caller learns about a panic; the log has the details.
var errPanic = errors.New("the decider panicked")

// Decide calls a decider and turns a panic into an error, except http.ErrAbortHandler, on which the
// server closes the connection without a response.
func Decide(ctx context.Context, d usher.Decider, r *usher.Request, log *slog.Logger) (decision usher.Decision, err error) {
	defer func() {
		switch reason := recover(); reason {
		case nil:
		case http.ErrAbortHandler:
			panic(reason)
		default:
			log.ErrorContext(ctx, "decider panicked", "uid", r.UID, "phase", r.Phase,
				"reason", reason, "stack", string(debug.Stack()))
			err = errPanic
		}
	}()
	return d.Decide(ctx, r)
}

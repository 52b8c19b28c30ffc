package serve

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/usher-dev/usher/rule"
)

// KeepRegistered runs what keeps the registration. It returns what to call when policies
// have changed, and what tells how it is doing.
func KeepRegistered(
	ctx context.Context, e enroller, mapper meta.ResettableRESTMapper, leads func() bool, log *slog.Logger,
	coverage func() rule.Coverage, ca trust,
) (signal func(tell func(error)), status func() (done bool, err error)) {
	r := newRegistration(e, mapper, leads, log)
	go func() { _ = r.run(ctx, coverage, ca) }()
	return r.signal, func() (bool, error) {
		s := r.status()
		return s.done, s.err
	}
}

// MostBytes bounds the bodies of all requests that are decided at a time.
const MostBytes = mostBytes

// Limit returns a handler that lets no more requests at a time through to next, the others
// waiting that long for their turn. It calls shed for those that it turns away.
func Limit(inFlight int, turn time.Duration, log *slog.Logger, shed func(), next http.Handler) http.Handler {
	g := newGate(inFlight, log, shed)
	g.turn = turn
	return g.limit(next)
}

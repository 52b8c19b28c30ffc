package serve

import (
	"context"
	"log/slog"

	"k8s.io/apimachinery/pkg/api/meta"

	usher "github.com/usher-dev/usher"
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

// Traced wraps a decider in what explains the requests that t picks.
func Traced(t Trace, d usher.Decider, rules func() []rule.Rule, log *slog.Logger) usher.Decider {
	return t.wrap(d, rules, log)
}

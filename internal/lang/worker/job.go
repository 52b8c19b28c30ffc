package worker

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// A Job is a request to a worker.
type Job struct {
	// Kind says which handler of the worker gets it.
	Kind Kind
	// Tenant is the tenant to which its processor time is attributed.
	Tenant string
	// Background jobs have the low priority.
	Background bool
	// Limit is how much processor time it may take; less if earlier jobs of the tenant took longer. On a busy
	// machine it may take some times as long.
	Limit time.Duration
	// Size is that of the request, if it is known: of the first requests of tenants, the smallest is next; see
	// also [Wanting].
	Size int
	// Used, unless nil, is told how much processor time a worker has used for it, before Do returns.
	Used func(cpu time.Duration)
	// Payload returns the request. It is called once there is a worker, and again if the job has to be
	// done again.
	Payload func() ([]byte, error)
}

// Wanting returns a context for jobs of a tenant that has so many of them: of the tenants that have used nothing
// yet, the one with the fewest is next.
func Wanting(ctx context.Context, jobs int) context.Context {
	return context.WithValue(ctx, wantedKey{}, jobs)
}

type wantedKey struct{}

// InBackground returns a context whose jobs are background jobs: no request waits behind them.
func InBackground(ctx context.Context) context.Context {
	return context.WithValue(ctx, backgroundKey{}, true)
}

// IsBackground reports whether jobs with this context are background jobs.
func IsBackground(ctx context.Context) bool { return ctx.Value(backgroundKey{}) != nil }

type backgroundKey struct{}

// Ended returns why ctx is done, as its error and its cause.
func Ended(ctx context.Context) error {
	if cause := context.Cause(ctx); !errors.Is(cause, ctx.Err()) {
		return fmt.Errorf("%w: %w", ctx.Err(), cause)
	}
	return ctx.Err()
}

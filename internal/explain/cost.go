package explain

import (
	"context"
	"errors"
	"runtime"
	"time"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/engine"
	"github.com/usher-dev/usher/internal/index"
	"github.com/usher-dev/usher/internal/overrun"
	"github.com/usher-dev/usher/internal/rule"
)

// A Cost is the average cost of one rule for one decision with warm caches, including its facts.
type Cost struct {
	Time time.Duration `json:"time"`
	// Stopped is the limit at which the rule was stopped, so that what it would cost is not known; 0 if it was not.
	Stopped time.Duration `json:"stopped,omitempty"`
	// Allocations is the number of allocations, and Bytes their total size. They include other
	// allocations of the process at the time.
	Allocations uint64 `json:"allocations"`
	Bytes       uint64 `json:"bytes"`
}

// rounds are how often a rule is run to measure it.
const rounds = 20

// measure runs a rule alone. The result is nil if ctx ends before that.
func measure(ctx context.Context, r *rule.Rule, request *usher.Request, facts fact.Resolver) *Cost {
	overruns := overrun.New(overrun.Options{Idle: 1})
	defer overruns.Close()
	alone := engine.New(index.New([]rule.Rule{*r}), facts, engine.Options{FailurePolicy: usher.Fail, Overruns: overruns})
	warm, err := alone.Decide(ctx, request)
	if err != nil {
		return nil
	}
	for i := range warm.Findings {
		if stopped, ok := errors.AsType[*engine.OverrunError](warm.Findings[i].Err); ok {
			return &Cost{Time: stopped.Limit, Stopped: stopped.Limit}
		}
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := time.Now()
	for range rounds {
		if _, err := alone.Decide(ctx, request); err != nil {
			return nil
		}
	}
	took := time.Since(start)
	runtime.ReadMemStats(&after)
	return &Cost{
		Time: took / rounds, Allocations: (after.Mallocs - before.Mallocs) / rounds, Bytes: (after.TotalAlloc - before.TotalAlloc) / rounds,
	}
}

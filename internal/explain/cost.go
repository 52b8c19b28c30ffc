package explain

import (
	"context"
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
	if _, err := alone.Decide(ctx, request); err != nil {
		return nil
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

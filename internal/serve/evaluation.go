package serve

import (
	"fmt"
	"time"

	"github.com/usher-dev/usher/internal/lang/worker"
	"github.com/usher-dev/usher/internal/overrun"
	"github.com/usher-dev/usher/internal/serve/page"
	"github.com/usher-dev/usher/internal/trial/isolated"
	"github.com/usher-dev/usher/observe/metrics"
)

// An evaluation is what evaluates policies.
type evaluation struct {
	// workers evaluate CUE, and compile policies before this process does, as checker tells them.
	workers *worker.Pool
	checker *isolated.Checker
	// overruns runs the evaluations of all engines.
	overruns *overrun.Watch
}

func newEvaluation(c *Config, m *metrics.Metrics) *evaluation {
	jobs := c.Rules.CUE
	jobs.Did = c.tracing.Job()
	workers := worker.New(jobs)
	e := &evaluation{
		workers: workers, checker: isolated.New(workers, isolated.Options{}),
		overruns: overrun.New(overrun.Options{Idle: overrun.ManyIdle, Log: c.Log}),
	}
	m.Workers(e.workerState)
	m.Overruns(e.overrunState)
	return e
}

func (e *evaluation) close() {
	e.workers.Close()
	e.overruns.Close()
}

// workerState returns the state of the CUE worker processes for metrics.
func (e *evaluation) workerState() metrics.WorkerState {
	state := e.workers.Stats()
	return metrics.WorkerState{
		Running:    map[string]int{"normal": state.Workers - state.LowPriority, "low": state.LowPriority},
		Ended:      ended(state),
		LowTenants: len(state.LowTenants), Waiting: state.Waiting, Waited: state.Waited,
		Answered: state.Answered, Refused: state.Refused, Stopped: e.checker.Stopped(),
	}
}

func ended(state worker.Stats) map[string]int {
	return map[string]int{
		"timeout": state.Overran, "memory": state.OutOfMemory, "crash": state.Crashed, "preempted": state.Preempted, "recycled": state.Recycled,
	}
}

// overrunState returns the evaluations that go on after their time, for metrics.
func (e *evaluation) overrunState() metrics.OverrunState {
	state := e.overruns.State()
	return metrics.OverrunState{Total: state.Overruns, Running: len(state.Late)}
}

// mostNamed limits the slow tenants that are listed.
const mostNamed = 20

// describeWorkers writes the state of the CUE worker processes as text.
func (e *evaluation) describeWorkers(b *page.Page) {
	state := e.workers.Stats()
	fmt.Fprintf(b, "worker processes: %d, of which %d have the low priority\n", state.Workers, state.LowPriority)
	fmt.Fprintf(b, "  answered: %d, waiting now: %d, waited in all: %s\n", state.Answered, state.Waiting, state.Waited.Round(time.Millisecond))
	if n := state.Overran + state.OutOfMemory + state.Crashed; n > 0 {
		fmt.Fprintf(b, "  requests that were ended: %d, %d after their time, %d out of memory, %d crashed\n", n, state.Overran, state.OutOfMemory, state.Crashed)
	}
	if state.Refused > 0 {
		fmt.Fprintf(b, "  refused, since too many of the same tenant waited: %d\n", state.Refused)
	}
	if !b.Named && len(state.LowTenants) > 0 {
		fmt.Fprintf(b, "  slow, so that others come first: %d\n", len(state.LowTenants))
	}
	for i, tenant := range state.LowTenants {
		if i == mostNamed {
			b.Namef("  and %d more\n", len(state.LowTenants)-i)
			break
		}
		if tenant == "" {
			tenant = "policies of the cluster"
		}
		b.Namef("  slow, so that others come first: %s\n", tenant)
	}
}

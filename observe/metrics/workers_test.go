package metrics_test

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/usher-dev/usher/observe/metrics"
)

func TestWorkers(t *testing.T) {
	t.Parallel()
	names := []string{
		"usher_cue_workers", "usher_cue_slow_tenants", "usher_cue_waiting", "usher_cue_wait_seconds_total",
		"usher_cue_evaluations_total", "usher_cue_workers_ended_total", "usher_compiles_stopped_total",
	}
	registry := prometheus.NewRegistry()
	m := metrics.New(registry)
	compare(t, registry, "", names...)
	m.Workers(func() metrics.WorkerState {
		return metrics.WorkerState{
			Running: map[string]int{"normal": 1, "low": 2}, Ended: map[string]int{"timeout": 3, "memory": 4, "crash": 5, "preempted": 6, "recycled": 7},
			LowTenants: 8, Waiting: 9, Waited: 10 * time.Second, Answered: 11, Refused: 13, Stopped: map[string]int{"timeout": 14, "memory": 15, "crash": 0},
		}
	})
	compare(t, registry, `
# HELP usher_compiles_stopped_total Policies whose compilation was stopped, by reason: timeout, memory or crash.
# TYPE usher_compiles_stopped_total counter
usher_compiles_stopped_total{reason="crash"} 0
usher_compiles_stopped_total{reason="memory"} 15
usher_compiles_stopped_total{reason="timeout"} 14
# HELP usher_cue_evaluations_total Requests to worker processes, by result: answered, failed (its process was ended), or refused (too many of the tenant waited).
# TYPE usher_cue_evaluations_total counter
usher_cue_evaluations_total{result="answered"} 11
usher_cue_evaluations_total{result="failed"} 12
usher_cue_evaluations_total{result="refused"} 13
# HELP usher_cue_slow_tenants Namespaces and users whose requests to worker processes have low priority because some took long.
# TYPE usher_cue_slow_tenants gauge
usher_cue_slow_tenants 8
# HELP usher_cue_wait_seconds_total Total time that requests have waited for a worker process.
# TYPE usher_cue_wait_seconds_total counter
usher_cue_wait_seconds_total 10
# HELP usher_cue_waiting Requests that wait for a worker process.
# TYPE usher_cue_waiting gauge
usher_cue_waiting 9
# HELP usher_cue_workers Worker processes, which evaluate CUE and compile policies, by priority: normal, or low for requests that take long and for policies that are compiled.
# TYPE usher_cue_workers gauge
usher_cue_workers{priority="low"} 2
usher_cue_workers{priority="normal"} 1
# HELP usher_cue_workers_ended_total Worker processes that were ended, by reason: timeout, memory, crash, preempted (others waited) or recycled (it used much memory).
# TYPE usher_cue_workers_ended_total counter
usher_cue_workers_ended_total{reason="crash"} 5
usher_cue_workers_ended_total{reason="memory"} 4
usher_cue_workers_ended_total{reason="preempted"} 6
usher_cue_workers_ended_total{reason="recycled"} 7
usher_cue_workers_ended_total{reason="timeout"} 3
`, names...)
}

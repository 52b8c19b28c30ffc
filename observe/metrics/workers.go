package metrics

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// A WorkerState is what worker processes do, and have done since the start.
type WorkerState struct {
	// Running is the number of processes by priority, Ended the number of ended ones by reason.
	Running, Ended map[string]int
	// LowTenants is how many tenants have the low priority.
	LowTenants int
	// Waiting is the number of requests that wait for a process; Waited is the total wait time.
	Waiting int
	Waited  time.Duration
	// Answered requests got an answer; Refused ones none, since too many of their tenant waited.
	Answered, Refused int
	// Stopped is the number of policies whose compilation was stopped, by reason.
	Stopped map[string]int
}

// Workers adds metrics about worker processes to m. The function is called whenever
// metrics are read.
func (m *Metrics) Workers(state func() WorkerState) { m.workers.current.Store(&state) }

// workers shows what Workers was given.
type workers struct {
	running, tenants, waiting, waited, requests, ended, stopped *prometheus.Desc

	current atomic.Pointer[func() WorkerState]
}

func (w *workers) init(m *catalog) {
	w.running = m.gauge("cue_workers", "Worker processes, which evaluate CUE and compile policies, by priority: normal, or low for requests that take long and for policies that are compiled.", "priority")
	w.tenants = m.gauge("cue_slow_tenants", "Namespaces and users whose requests to worker processes have low priority because some took long.")
	w.waiting = m.gauge("cue_waiting", "Requests that wait for a worker process.")
	w.waited = m.counter("cue_wait_seconds_total", "Total time that requests have waited for a worker process.")
	w.requests = m.counter("cue_evaluations_total", "Requests to worker processes, by result: answered, failed (its process was ended), or refused (too many of the tenant waited).", "result")
	w.ended = m.counter("cue_workers_ended_total", "Worker processes that were ended, by reason: timeout, memory, crash, preempted (others waited) or recycled (it used much memory).", "reason")
	w.stopped = m.counter("compiles_stopped_total", "Policies whose compilation was stopped, by reason: timeout, memory or crash.", "reason")
}

// Describe implements prometheus.Collector.
func (w *workers) Describe(descs chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{w.running, w.tenants, w.waiting, w.waited, w.requests, w.ended, w.stopped} {
		descs <- desc
	}
}

// Collect implements prometheus.Collector.
func (w *workers) Collect(metrics chan<- prometheus.Metric) {
	sent := scrape(metrics)
	current := w.current.Load()
	if current == nil {
		return
	}
	state := (*current)()
	for priority, n := range state.Running {
		sent.gauge(w.running, float64(n), priority)
	}
	sent.gauge(w.tenants, float64(state.LowTenants))
	sent.gauge(w.waiting, float64(state.Waiting))
	sent.count(w.waited, state.Waited.Seconds())
	sent.count(w.requests, float64(state.Answered), "answered")
	sent.count(w.requests, float64(state.Ended["timeout"]+state.Ended["memory"]+state.Ended["crash"]), "failed")
	sent.count(w.requests, float64(state.Refused), "refused")
	for reason, n := range state.Ended {
		sent.count(w.ended, float64(n), reason)
	}
	for reason, n := range state.Stopped {
		sent.count(w.stopped, float64(n), reason)
	}
}

package metrics

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// An OverrunState is how many evaluations have gone on after their time.
type OverrunState struct {
	// Total is since the start, Running now.
	Total   uint64
	Running int
}

// Overruns adds metrics about evaluations that go on after their time to m. The function is called
// whenever metrics are read.
func (m *Metrics) Overruns(state func() OverrunState) { m.overruns.current.Store(&state) }

// overruns shows what Overruns was given.
type overruns struct {
	total, running *prometheus.Desc

	current atomic.Pointer[func() OverrunState]
}

func (o *overruns) init(m *catalog) {
	o.total = m.counter("overruns_total", "Evaluations of policies that went on for more than a second after their time.")
	o.running = m.gauge("overruns_running", "Evaluations of policies that go on after their time and do not end.")
}

// Describe implements prometheus.Collector.
func (o *overruns) Describe(descs chan<- *prometheus.Desc) {
	descs <- o.total
	descs <- o.running
}

// Collect implements prometheus.Collector.
func (o *overruns) Collect(metrics chan<- prometheus.Metric) {
	sent := scrape(metrics)
	current := o.current.Load()
	if current == nil {
		return
	}
	state := (*current)()
	sent.count(o.total, float64(state.Total))
	sent.gauge(o.running, float64(state.Running))
}

package metrics

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// Recent adds metrics about those who follow the last decisions to m: how many there are, and how
// many decisions they have lost. The function is called whenever metrics are read.
func (m *Metrics) Recent(state func() (subscribers int, lost uint64)) { m.recent.current.Store(&state) }

// recentState shows what Recent was given.
type recentState struct {
	subscribers, lost *prometheus.Desc

	current atomic.Pointer[func() (int, uint64)]
}

func (r *recentState) init(m *catalog) {
	r.subscribers = m.gauge("decisions_recent_subscribers", "Clients that follow the last decisions, as usher watch does.")
	r.lost = m.counter("decisions_recent_lost_total", "Decisions that were overwritten before clients that follow them had read them, summed over clients.")
}

// Describe implements prometheus.Collector.
func (r *recentState) Describe(descs chan<- *prometheus.Desc) {
	descs <- r.subscribers
	descs <- r.lost
}

// Collect implements prometheus.Collector.
func (r *recentState) Collect(metrics chan<- prometheus.Metric) {
	sent := scrape(metrics)
	current := r.current.Load()
	if current == nil {
		return
	}
	subscribers, lost := (*current)()
	sent.gauge(r.subscribers, float64(subscribers))
	sent.count(r.lost, float64(lost))
}

package metrics

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// A ClusterState is the state of a process in a cluster. Its functions are called whenever metrics
// are read. Metrics of nil functions are omitted.
type ClusterState struct {
	// Staleness is for how long the policies have not been confirmed to be those of the cluster.
	Staleness func() time.Duration
	// Registered reports whether the webhook configurations cover what the policies need.
	Registered func() bool
	// Called is whether they do, as probes have shown. It is not known on replicas that do
	// not probe.
	Called func() (called, known bool)
	// Failing is how many policies fail at this replica.
	Failing func() int
	// Kinds is how many kinds of policies are in which state.
	Kinds func() map[string]int
	// DroppedEvents is how many Events about denials were not written.
	DroppedEvents func() int64
}

// Cluster adds metrics about the process in a cluster to m.
func (m *Metrics) Cluster(state ClusterState) { m.cluster.current.Store(&state) }

// Probed counts a probe by its result: called, not_called or unknown.
func (m *Metrics) Probed(result string) { m.probes.WithLabelValues(result).Inc() }

// cluster shows what Cluster was given.
type cluster struct {
	staleness, registered, called, failing, kinds, dropped *prometheus.Desc

	current atomic.Pointer[ClusterState]
}

func (c *cluster) init(m *catalog) {
	c.staleness = m.gauge("source_staleness_seconds", "Time since the policies were last confirmed to be those of the cluster; up to half a minute is normal.")
	c.registered = m.gauge("registered", "1 if the webhook configurations have what the policies need, 0 if they could not be written.")
	c.called = m.gauge("probe_success", "1 if the leader's probes came back, 0 if API servers do not call the webhooks; only on the leader, and if known.")
	c.failing = m.gauge("failing_policies", "Policies with a rule that has failed at this replica and has not worked since.")
	c.kinds = m.gauge("policy_kinds", "Kinds of policies of the cluster, by state: read, older (the CRD lacks fields of this version), absent, forbidden or failing.", "state")
	c.dropped = m.counter("denial_events_dropped_total", "Events about denied requests that were not written: there were too many, or the API server refused them.")
}

// Describe implements prometheus.Collector.
func (c *cluster) Describe(descs chan<- *prometheus.Desc) {
	descs <- c.staleness
	descs <- c.registered
	descs <- c.called
	descs <- c.failing
	descs <- c.kinds
	descs <- c.dropped
}

// Collect implements prometheus.Collector.
func (c *cluster) Collect(metrics chan<- prometheus.Metric) {
	sent := scrape(metrics)
	current := c.current.Load()
	if current == nil {
		return
	}
	if current.Staleness != nil {
		sent.gauge(c.staleness, current.Staleness().Seconds())
	}
	if current.Registered != nil {
		sent.gauge(c.registered, number(current.Registered()))
	}
	if current.Failing != nil {
		sent.gauge(c.failing, float64(current.Failing()))
	}
	if current.Kinds != nil {
		for state, n := range current.Kinds() {
			sent.gauge(c.kinds, float64(n), state)
		}
	}
	if current.DroppedEvents != nil {
		sent.count(c.dropped, float64(current.DroppedEvents()))
	}
	if current.Called == nil {
		return
	}
	if called, known := current.Called(); known {
		sent.gauge(c.called, number(called))
	}
}

func number(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

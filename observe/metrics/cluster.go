package metrics

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Cluster makes m show how the process is doing in a cluster. staleness is for how long the
// policies have not been known to be those of the cluster, registered whether API servers
// ask for what the policies need. Both are called whenever metrics are read. What is nil
// is not shown.
func (m *Metrics) Cluster(staleness func() time.Duration, registered func() bool) {
	m.cluster.current.Store(&clusterState{staleness: staleness, registered: registered})
}

type clusterState struct {
	staleness  func() time.Duration
	registered func() bool
}

// cluster shows what Cluster was given.
type cluster struct {
	staleness, registered *prometheus.Desc

	current atomic.Pointer[clusterState]
}

func (c *cluster) init(m *Metrics) {
	c.staleness = m.gauge("source_staleness_seconds", "For how long the policies have not been known to be those of the cluster; up to half a minute is normal.")
	c.registered = m.gauge("registered", "1 if API servers ask for what the policies need, 0 if they could not be told.")
}

// Describe implements prometheus.Collector.
func (c *cluster) Describe(descs chan<- *prometheus.Desc) {
	descs <- c.staleness
	descs <- c.registered
}

// Collect implements prometheus.Collector.
func (c *cluster) Collect(metrics chan<- prometheus.Metric) {
	current := c.current.Load()
	if current == nil {
		return
	}
	if current.staleness != nil {
		metrics <- prometheus.MustNewConstMetric(c.staleness, prometheus.GaugeValue, current.staleness().Seconds())
	}
	if current.registered != nil {
		value := 0.0
		if current.registered() {
			value = 1
		}
		metrics <- prometheus.MustNewConstMetric(c.registered, prometheus.GaugeValue, value)
	}
}

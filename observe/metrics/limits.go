package metrics

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// A LimitState is what requests take of the limits of a server.
type LimitState struct {
	// Bytes of MaxBytes are taken by reviews, of all doors together.
	Bytes, MaxBytes int64
	// InFlight is how many admission requests are decided, and Waiting how many requests wait
	// for memory or to be decided.
	InFlight int64
	Waiting  int
	// Connections are those of each server without an authenticated caller.
	Connections map[string]ConnectionState
}

// A ConnectionState is the state of the connections of unauthenticated callers.
type ConnectionState struct {
	// Pending is how many have not finished a request, Settled how many have.
	Pending, Settled int
	// Closed is how many were closed because there were too many.
	Closed int64
}

// Limits adds metrics about the use of limits to m. The function is called whenever metrics are
// read.
func (m *Metrics) Limits(state func() LimitState) { m.limits.current.Store(&state) }

// limits shows what Limits was given.
type limits struct {
	bytes, maxBytes, inFlight, waiting, connections, closed *prometheus.Desc

	current atomic.Pointer[func() LimitState]
}

func (l *limits) init(m *catalog) {
	l.bytes = m.gauge("request_memory_bytes", "Memory for reading and decoding the current reviews.")
	l.maxBytes = m.gauge("request_memory_limit_bytes", "Limit of the memory for reviews: a quarter of GOMEMLIMIT.")
	l.inFlight = m.gauge("requests_in_flight", "Admission requests that are being decided.")
	l.waiting = m.gauge("requests_waiting", "Requests that wait for memory, or to be decided.")
	l.connections = m.gauge("unproven_connections", "Connections of unauthenticated callers, by server and state: pending (no complete request yet) or settled.", "server", "state")
	l.closed = m.counter("closed_connections_total", "Connections of unauthenticated callers that were closed because there were too many.", "server")
}

// Describe implements prometheus.Collector.
func (l *limits) Describe(descs chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{l.bytes, l.maxBytes, l.inFlight, l.waiting, l.connections, l.closed} {
		descs <- desc
	}
}

// Collect implements prometheus.Collector.
func (l *limits) Collect(metrics chan<- prometheus.Metric) {
	sent := scrape(metrics)
	current := l.current.Load()
	if current == nil {
		return
	}
	state := (*current)()
	sent.gauge(l.bytes, float64(state.Bytes))
	sent.gauge(l.maxBytes, float64(state.MaxBytes))
	sent.gauge(l.inFlight, float64(state.InFlight))
	sent.gauge(l.waiting, float64(state.Waiting))
	for server, c := range state.Connections {
		sent.gauge(l.connections, float64(c.Pending), server, "pending")
		sent.gauge(l.connections, float64(c.Settled), server, "settled")
		sent.count(l.closed, float64(c.Closed), server)
	}
}

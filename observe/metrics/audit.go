package metrics

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// An AuditState is the state of the audit of a replica that audits.
type AuditState struct {
	// Resources are the resources whose objects are audited, by name, version and group.
	Resources map[string]AuditResource
	// Discovered is whether all kinds of the cluster are known.
	Discovered bool
	// Results counts results by status.
	Results map[string]int
	// Bytes of MaxBytes are taken by what is kept.
	Bytes, MaxBytes int64
	// Evaluations is how many objects have been judged, and CPU the time that it took, since this
	// replica audits.
	Evaluations uint64
	CPU         time.Duration
}

// An AuditResource is the state of the audit of one resource.
type AuditResource struct {
	// Objects is how many there are, and Backlog how many of them are to be judged.
	Objects, Backlog int
	// Staleness is for how long they have not been confirmed to be those of the cluster.
	Staleness time.Duration
	// Readable is false while the objects cannot be read.
	Readable bool
}

// Audit adds metrics about the audit to m. The function is called whenever metrics are read, and
// returns nil while another replica audits.
func (m *Metrics) Audit(state func() *AuditState) { m.audit.current.Store(&state) }

// audit shows what Audit was given.
type audit struct {
	objects, backlog, readable, staleness, discovered, results, bytes, maxBytes, evaluations, cpu *prometheus.Desc

	current atomic.Pointer[func() *AuditState]
}

func (a *audit) init(m *catalog) {
	a.objects = m.gauge("audit_objects", "Objects that are audited, by resource; only on the replica that audits.", "resource")
	a.backlog = m.gauge("audit_backlog", "Objects that are to be judged, by resource.", "resource")
	a.readable = m.gauge("audit_readable", "1 if the objects of the resource can be read, 0 if not, although policies are for them.", "resource")
	a.staleness = m.gauge("audit_staleness_seconds", "Time since the objects of the resource were last confirmed to be those of the cluster; up to two minutes is normal.", "resource")
	a.discovered = m.gauge("audit_discovered", "1 if all kinds of the cluster are known, 0 if API groups do not respond, so that their objects may be left out.")
	a.results = m.gauge("audit_results", "Results of the audit, by status: pass, fail, warn, error or skip.", "status")
	a.bytes = m.gauge("audit_memory_bytes", "Memory for what the audit keeps of objects and results.")
	a.maxBytes = m.gauge("audit_memory_limit_bytes", "Limit of the memory for the audit: --audit-memory.")
	a.evaluations = m.counter("audit_evaluations_total", "Objects that were judged, again whenever policies or facts change.")
	a.cpu = m.counter("audit_cpu_seconds_total", "Processor time for reading and judging objects.")
}

// Describe implements prometheus.Collector.
func (a *audit) Describe(descs chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{a.objects, a.backlog, a.readable, a.staleness, a.discovered, a.results, a.bytes, a.maxBytes, a.evaluations, a.cpu} {
		descs <- desc
	}
}

// Collect implements prometheus.Collector.
func (a *audit) Collect(metrics chan<- prometheus.Metric) {
	sent := scrape(metrics)
	current := a.current.Load()
	if current == nil {
		return
	}
	state := (*current)()
	if state == nil {
		return
	}
	for name, r := range state.Resources {
		sent.gauge(a.objects, float64(r.Objects), name)
		sent.gauge(a.backlog, float64(r.Backlog), name)
		sent.gauge(a.readable, number(r.Readable), name)
		sent.gauge(a.staleness, r.Staleness.Seconds(), name)
	}
	sent.gauge(a.discovered, number(state.Discovered))
	for status, n := range state.Results {
		sent.gauge(a.results, float64(n), status)
	}
	sent.gauge(a.bytes, float64(state.Bytes))
	sent.gauge(a.maxBytes, float64(state.MaxBytes))
	sent.count(a.evaluations, float64(state.Evaluations))
	sent.count(a.cpu, state.CPU.Seconds())
}

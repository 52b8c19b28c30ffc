package metrics

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// A ReportsState is the state of the reports that a replica writes about what it audits.
type ReportsState struct {
	// Writable is false while none can be written.
	Writable bool
	// Reports and Results are how many there are, and Omitted how many results are in no report.
	Reports, Results, Omitted int
	// Pending and Blocked count namespaces: those with changes to be written, and those whose reports
	// the API server rejects.
	Pending, Blocked int
	// Written, Deleted and Errors count writes.
	Written, Deleted, Errors uint64
}

// Reports adds metrics about reports to m. The function is called whenever metrics are read, and
// returns nil while this replica writes none.
func (m *Metrics) Reports(state func() *ReportsState) { m.reports.current.Store(&state) }

// reports shows what Reports was given.
type reports struct {
	writable, objects, results, omitted, pending, blocked, writes *prometheus.Desc

	current atomic.Pointer[func() *ReportsState]
}

func (r *reports) init(m *catalog) {
	r.writable = m.gauge("reports_writable", "1 if reports can be written, 0 if not; only on the replica that audits.")
	r.objects = m.gauge("reports", "Reports about audited objects in the cluster.")
	r.results = m.gauge("reports_results", "Results in these reports.")
	r.omitted = m.gauge("reports_results_omitted", "Results that are in no report because there are more than --report-limit.")
	r.pending = m.gauge("reports_pending", "Namespaces whose reports are to be written.")
	r.blocked = m.gauge("reports_blocked", "Namespaces whose reports the API server rejects.")
	r.writes = m.counter("reports_writes_total", "Writes of reports, by result: written, deleted or error.", "result")
}

// Describe implements prometheus.Collector.
func (r *reports) Describe(descs chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{r.writable, r.objects, r.results, r.omitted, r.pending, r.blocked, r.writes} {
		descs <- desc
	}
}

// Collect implements prometheus.Collector.
func (r *reports) Collect(metrics chan<- prometheus.Metric) {
	sent := scrape(metrics)
	current := r.current.Load()
	if current == nil {
		return
	}
	state := (*current)()
	if state == nil {
		return
	}
	for desc, value := range map[*prometheus.Desc]float64{
		r.writable: number(state.Writable), r.objects: float64(state.Reports), r.results: float64(state.Results),
		r.omitted: float64(state.Omitted), r.pending: float64(state.Pending), r.blocked: float64(state.Blocked),
	} {
		sent.gauge(desc, value)
	}
	for label, value := range map[string]uint64{"written": state.Written, "deleted": state.Deleted, "error": state.Errors} {
		sent.count(r.writes, float64(value), label)
	}
}

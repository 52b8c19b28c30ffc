// Package metrics counts decisions, the outcomes of each policy, and facts, for Prometheus.
// docs/metrics.md lists the metrics.
//
//	m := metrics.New(nil)
//	http.Handle("/mutate", admission.Mutate(m.Wrap(d, "admission"), admission.Options{}))
//	http.Handle("/metrics", m.Handler())
//
// No label has a value that users of the API can choose: the number of series depends on the number
// of policies.
package metrics

import (
	"context"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
)

// A Metrics is the metrics of one process. It is safe for concurrent use.
type Metrics struct {
	catalog

	decisions        *prometheus.CounterVec
	decisionDuration *prometheus.HistogramVec
	admissions       *prometheus.CounterVec
	entryCalls       *prometheus.CounterVec
	shed             prometheus.Counter
	refused          *prometheus.CounterVec
	probes           *prometheus.CounterVec
	facts            facts
	requests         requests

	policies policies
	snapshot table[usher.Snapshot]
	cluster  table[ClusterState]
	limits   table[LimitState]
	workers  table[WorkerState]
	overruns table[OverrunState]
	written  written
	audit    table[AuditState]
	recent   table[recentState]
	reports  table[ReportsState]
}

// New returns metrics that are registered with registry, which must not have them yet. Without a
// registry they get their own, which also has the metrics of the Go runtime and of the process.
func New(registry *prometheus.Registry) *Metrics {
	if registry == nil {
		registry = prometheus.NewRegistry()
		registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	}
	m := &Metrics{catalog: catalog{registry: registry}}
	m.decisions = m.counterVec("decisions_total",
		"Requests that were decided, by verdict: allow, deny, no_opinion, or error if there is no decision.",
		"door", "phase", "verdict")
	m.decisionDuration = m.histogramVec("decision_duration_seconds",
		"Duration of decisions, without reading the request and writing the response.",
		"door", "phase")
	m.admissions = m.counterVec("policy_admissions_total",
		"Writes of policies that were decided, by verdict. They are included in the decisions.",
		"phase", "verdict")
	m.entryCalls = m.counterVec("entry_calls_total",
		"Calls of webhook entries: a request whose object is converted for some policies is sent to several.",
		"entry")
	m.requests.init(&m.catalog)
	m.shed = m.plainCounter("requests_shed_total",
		"Admission requests that were rejected with 429 because of overload.")
	m.limits.init(&m.catalog, limitRows()...)
	m.refused = m.counterVec("refused_callers_total",
		"Requests and connections that were rejected because of missing or wrong credentials, by door and reason.",
		"door", "reason")
	m.policies.init(&m.catalog)
	m.snapshot.init(&m.catalog, snapshotRows()...)
	m.cluster.init(&m.catalog, clusterRows()...)
	m.probes = m.counterVec("probes_total",
		"Dry-run writes of the leader, by result: called, not_called (API servers did not call the webhooks) or unknown.",
		"result")
	m.workers.init(&m.catalog, workerRows()...)
	m.overruns.init(&m.catalog, overrunRows()...)
	m.written.exemptions.init(&m.catalog, exemptionRows()...)
	m.written.candidates.init(&m.catalog, candidateRows()...)
	m.recent.init(&m.catalog, recentRows()...)
	m.audit.init(&m.catalog, auditRows()...)
	m.reports.init(&m.catalog, reportRows()...)
	m.facts.init(&m.catalog)
	registry.MustRegister(&m.policies, &m.snapshot, &m.cluster, &m.limits, &m.workers, &m.overruns, &m.written.exemptions, &m.written.candidates, &m.audit, &m.recent, &m.reports, m.buildInfo())
	return m
}

// Handler shows all that is registered with the registry of m.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

// Wrap returns a decider that decides as d does and counts the decisions under the name of the
// door.
func (m *Metrics) Wrap(d usher.Decider, door string) usher.Decider {
	counts := doorCounts{metrics: m, door: door}
	return usher.DeciderFunc(func(ctx context.Context, r *usher.Request) (usher.Decision, error) {
		start := time.Now()
		verdict := undecided
		// A decider that panics has taken its time, too.
		defer func() {
			counts.add(r.Phase, verdict, time.Since(start))
			if r.Access == nil && api.IsPolicy(r.Kind) {
				m.admissions.WithLabelValues(phaseLabels[phaseOf(r.Phase)], verdictLabels[verdict]).Inc()
			}
		}()
		decision, err := d.Decide(ctx, r)
		if err == nil {
			verdict = verdictOf(decision.Verdict)
		}
		m.policies.count(decision.Findings)
		return decision, err
	})
}

// Entries returns a decider that decides as d does, counts the decisions under the name of the
// door, and the calls by entry. A call for a request that is counted at another entry is not a
// decision.
func (m *Metrics) Entries(d usher.Decider, door string, of func(*usher.Request) (entry string, again bool)) usher.Decider {
	counted := m.Wrap(d, door)
	return usher.DeciderFunc(func(ctx context.Context, r *usher.Request) (usher.Decision, error) {
		entry, again := of(r)
		m.entryCalls.WithLabelValues(entry).Inc()
		if !again {
			return counted.Decide(ctx, r)
		}
		decision, err := d.Decide(ctx, r)
		m.policies.count(decision.Findings)
		return decision, err
	})
}

// Shed counts a request that was rejected because of overload.
func (m *Metrics) Shed() { m.shed.Inc() }

// Refused returns a counter for callers that a door rejects. The reasons, of which there are few,
// are exported from the start.
func (m *Metrics) Refused(door string, reasons ...string) func(reason string) {
	for _, reason := range reasons {
		m.refused.WithLabelValues(door, reason)
	}
	return func(reason string) { m.refused.WithLabelValues(door, reason).Inc() }
}

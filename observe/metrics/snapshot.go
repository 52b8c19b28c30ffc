package metrics

import (
	"maps"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	usher "github.com/usher-dev/usher"
)

// A Snapshot is the state of the policies in force.
type Snapshot struct {
	// Generation counts the snapshots of this process; Since is when this one came into force.
	Generation int64
	Since      time.Time
	// Policies is how many policies there are, by kind.
	Policies map[string]int
	// Known is how many policies API servers enforce themselves, by kind.
	Known map[string]int
	// InForce are the policies that have rules; the series of others end. Repetitions do
	// not matter.
	InForce []usher.PolicyRef
	// Pending is the number of policies that are not compiled yet; Surplus is the number of
	// policies that are not in force because their namespace has too many.
	Pending, Surplus int
	// Suspended is how many policies decide nothing, because their writers say so, by kind.
	Suspended map[string]int
	// Rules is how many rules are in force.
	Rules int
	// Problems is how many problems there are, by severity.
	Problems map[string]int
	// Proofs is how many policies need a proof, by what theirs is worth.
	Proofs map[string]int
	// SourceErrors is how much could not be read as a policy.
	SourceErrors int
}

// Snapshot makes s the exported state. Until the first call there is none.
func (m *Metrics) Snapshot(s Snapshot) {
	m.policies.keep(s.InForce)
	m.snapshot.current.Store(&s)
}

// snapshot shows the current Snapshot, all of the same one at a time.
type snapshot struct {
	generation, timestamp, age, policies, known, pending, surplus, suspended, rules, problems, proofs, sourceErrors *prometheus.Desc

	current atomic.Pointer[Snapshot]
}

func (s *snapshot) init(m *catalog) {
	s.generation = m.gauge("snapshot_generation", "Number of changes of the set of policies since the start.")
	s.timestamp = m.gauge("snapshot_timestamp_seconds", "When the set of policies came into force, in seconds since 1970.")
	s.age = m.gauge("snapshot_age_seconds", "How long the set of policies has been in force.")
	s.policies = m.gauge("snapshot_policies", "Policies, including those that cannot be enforced.", "kind")
	s.known = m.gauge("snapshot_known_policies", "Admission policies and bindings that API servers enforce themselves, and Usher does not.", "kind")
	s.pending = m.gauge("snapshot_pending_policies", "Policies that are not compiled yet; their failure policy decides.")
	s.surplus = m.gauge("snapshot_surplus_policies", "Policies that are not in force because their namespace has too many.")
	s.suspended = m.gauge("snapshot_suspended_policies", "Policies that decide nothing, because they are suspended.", "kind")
	s.rules = m.gauge("snapshot_rules", "Rules of policies in force.")
	s.problems = m.gauge("policy_problems", "Problems of policies, by severity: error, mistake or warning.", "severity")
	s.proofs = m.gauge("policy_proofs", "Policies that need a proof, by state: proven, recorded (from before proofs, in force) or unproven.", "state")
	s.sourceErrors = m.gauge("source_errors", "Documents in the sources that could not be read as policies.")
}

// Describe implements prometheus.Collector.
func (s *snapshot) Describe(descs chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{s.generation, s.timestamp, s.age, s.policies, s.known, s.pending, s.surplus, s.suspended, s.rules, s.problems, s.proofs, s.sourceErrors} {
		descs <- desc
	}
}

// Collect implements prometheus.Collector.
func (s *snapshot) Collect(metrics chan<- prometheus.Metric) {
	sent := scrape(metrics)
	current := s.current.Load()
	if current == nil {
		return
	}
	sent.gauge(s.generation, float64(current.Generation))
	sent.gauge(s.timestamp, float64(current.Since.UnixMilli())/1000)
	sent.gauge(s.age, time.Since(current.Since).Seconds())
	for kind, n := range current.Known {
		sent.gauge(s.known, float64(n), kind)
	}
	for kind, n := range current.Policies {
		sent.gauge(s.policies, float64(n), kind)
		// Alerts need a 0 to compare with, not a missing series.
		sent.gauge(s.suspended, float64(current.Suspended[kind]), kind)
	}
	sent.gauge(s.pending, float64(current.Pending))
	sent.gauge(s.surplus, float64(current.Surplus))
	sent.gauge(s.rules, float64(current.Rules))
	problems := map[string]int{"error": 0, "mistake": 0, "warning": 0}
	maps.Copy(problems, current.Problems)
	for severity, n := range problems {
		sent.gauge(s.problems, float64(n), severity)
	}
	proofs := map[string]int{"proven": 0, "recorded": 0, "unproven": 0}
	maps.Copy(proofs, current.Proofs)
	for state, n := range proofs {
		sent.gauge(s.proofs, float64(n), state)
	}
	sent.gauge(s.sourceErrors, float64(current.SourceErrors))
}

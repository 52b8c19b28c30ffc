package metrics

import (
	"maps"
	"slices"
	"time"

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
	m.snapshot.show(func() *Snapshot { return &s })
}

// withZero returns counts with a 0 for each label that is missing: alerts need a 0 to compare with, not a missing
// series.
func withZero(counts map[string]int, labels ...string) map[string]int {
	all := map[string]int{}
	for _, label := range labels {
		all[label] = 0
	}
	maps.Copy(all, counts)
	return all
}

func snapshotRows() []row[Snapshot] {
	return []row[Snapshot]{
		{"snapshot_generation", "Number of changes of the set of policies since the start.", nil, one(func(s *Snapshot) int64 { return s.Generation })},
		{"snapshot_timestamp_seconds", "When the set of policies came into force, in seconds since 1970.", nil, one(func(s *Snapshot) float64 { return float64(s.Since.UnixMilli()) / 1000 })},
		{"snapshot_age_seconds", "How long the set of policies has been in force.", nil, one(func(s *Snapshot) float64 { return time.Since(s.Since).Seconds() })},
		{"snapshot_policies", "Policies, including those that cannot be enforced.", []string{"kind"}, by(func(s *Snapshot) map[string]int { return s.Policies })},
		{"snapshot_known_policies", "Admission policies and bindings that API servers enforce themselves, and Usher does not.", []string{"kind"}, by(func(s *Snapshot) map[string]int { return s.Known })},
		{"snapshot_pending_policies", "Policies that are not compiled yet; their failure policy decides.", nil, one(func(s *Snapshot) int { return s.Pending })},
		{"snapshot_surplus_policies", "Policies that are not in force because their namespace has too many.", nil, one(func(s *Snapshot) int { return s.Surplus })},
		{"snapshot_suspended_policies", "Policies that decide nothing, because they are suspended.", []string{"kind"}, by(func(s *Snapshot) map[string]int {
			return withZero(s.Suspended, slices.Collect(maps.Keys(s.Policies))...)
		})},
		{"snapshot_rules", "Rules of policies in force.", nil, one(func(s *Snapshot) int { return s.Rules })},
		{"policy_problems", "Problems of policies, by severity: error, mistake or warning.", []string{"severity"}, by(func(s *Snapshot) map[string]int { return withZero(s.Problems, "error", "mistake", "warning") })},
		{"policy_proofs", "Policies that need a proof, by state: proven, recorded (from before proofs, in force) or unproven.", []string{"state"}, by(func(s *Snapshot) map[string]int { return withZero(s.Proofs, "proven", "recorded", "unproven") })},
		{"source_errors", "Documents in the sources that could not be read as policies.", nil, one(func(s *Snapshot) int { return s.SourceErrors })},
	}
}

package metrics

import (
	"maps"
	"slices"
	"time"

	usher "github.com/usher-dev/usher"
)

// Snapshot makes s the exported state. Until the first call there is none. It is a function for live.Options.OnUpdate.
func (m *Metrics) Snapshot(s usher.Snapshot) {
	m.policies.keep(s.InForce)
	m.snapshot.show(func() *usher.Snapshot { return &s })
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

func snapshotRows() []row[usher.Snapshot] {
	return []row[usher.Snapshot]{
		{"snapshot_generation", "Number of changes of the set of policies since the start.", nil, one(func(s *usher.Snapshot) int64 { return s.Generation })},
		{"snapshot_timestamp_seconds", "When the set of policies came into force, in seconds since 1970.", nil, one(func(s *usher.Snapshot) float64 { return float64(s.Since.UnixMilli()) / 1000 })},
		{"snapshot_age_seconds", "How long the set of policies has been in force.", nil, one(func(s *usher.Snapshot) float64 { return time.Since(s.Since).Seconds() })},
		{"snapshot_policies", "Policies, including those that cannot be enforced.", []string{"kind"}, by(func(s *usher.Snapshot) map[string]int { return s.Policies })},
		{"snapshot_known_policies", "Admission policies and bindings that API servers enforce themselves, and Usher does not.", []string{"kind"}, by(func(s *usher.Snapshot) map[string]int { return s.Known })},
		{"snapshot_pending_policies", "Policies that are not compiled yet; their failure policy decides.", nil, one(func(s *usher.Snapshot) int { return s.Pending })},
		{"snapshot_surplus_policies", "Policies that are not in force because their namespace has too many.", nil, one(func(s *usher.Snapshot) int { return s.Surplus })},
		{"snapshot_suspended_policies", "Policies that decide nothing, because they are suspended.", []string{"kind"}, by(func(s *usher.Snapshot) map[string]int {
			return withZero(s.Suspended, slices.Collect(maps.Keys(s.Policies))...)
		})},
		{"snapshot_rules", "Rules of policies in force.", nil, one(func(s *usher.Snapshot) int { return s.Rules })},
		{"policy_problems", "Problems of policies, by severity: error, mistake or warning.", []string{"severity"}, by(func(s *usher.Snapshot) map[string]int { return withZero(s.Problems, "error", "mistake", "warning") })},
		{"policy_proofs", "Policies that need a proof, by state: proven, recorded (from before proofs, in force) or unproven.", []string{"state"}, by(func(s *usher.Snapshot) map[string]int { return withZero(s.Proofs, "proven", "recorded", "unproven") })},
		{"source_errors", "Documents in the sources that could not be read as policies.", nil, one(func(s *usher.Snapshot) int { return s.SourceErrors })},
	}
}

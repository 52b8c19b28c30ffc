package metrics_test

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/observe/metrics"
)

func TestSnapshot(t *testing.T) {
	t.Parallel()
	names := []string{
		"usher_snapshot_generation", "usher_snapshot_timestamp_seconds", "usher_snapshot_policies", "usher_snapshot_known_policies", "usher_snapshot_rules",
		"usher_snapshot_pending_policies", "usher_snapshot_surplus_policies", "usher_snapshot_suspended_policies", "usher_policy_problems", "usher_policy_proofs", "usher_source_errors",
	}
	registry := prometheus.NewRegistry()
	m := metrics.New(registry)
	compare(t, registry, "", names...)
	m.Snapshot(usher.Snapshot{Generation: 1, Policies: map[string]int{"OverridePolicy": 2}, Problems: map[string]int{"error": 4}})
	m.Snapshot(usher.Snapshot{
		Generation: 2, Since: time.UnixMilli(1700000000250), Rules: 3, SourceErrors: 5, Pending: 6, Surplus: 7,
		Policies: map[string]int{"ClusterObjectPolicy": 0, "ClusterValidatePolicy": 1}, Suspended: map[string]int{"ClusterValidatePolicy": 1}, Problems: map[string]int{"warning": 2}, Proofs: map[string]int{"unproven": 7},
		Known: map[string]int{"ValidatingAdmissionPolicy": 8},
	})
	compare(t, registry, `
# HELP usher_policy_problems Problems of policies, by severity: error, mistake or warning.
# TYPE usher_policy_problems gauge
usher_policy_problems{severity="error"} 0
usher_policy_problems{severity="mistake"} 0
usher_policy_problems{severity="warning"} 2
# HELP usher_policy_proofs Policies that need a proof, by state: proven, recorded (from before proofs, in force) or unproven.
# TYPE usher_policy_proofs gauge
usher_policy_proofs{state="proven"} 0
usher_policy_proofs{state="recorded"} 0
usher_policy_proofs{state="unproven"} 7
# HELP usher_snapshot_generation Number of changes of the set of policies since the start.
# TYPE usher_snapshot_generation gauge
usher_snapshot_generation 2
# HELP usher_snapshot_known_policies Admission policies and bindings that API servers enforce themselves, and Usher does not.
# TYPE usher_snapshot_known_policies gauge
usher_snapshot_known_policies{kind="ValidatingAdmissionPolicy"} 8
# HELP usher_snapshot_pending_policies Policies that are not compiled yet; their failure policy decides.
# TYPE usher_snapshot_pending_policies gauge
usher_snapshot_pending_policies 6
# HELP usher_snapshot_policies Policies, including those that cannot be enforced.
# TYPE usher_snapshot_policies gauge
usher_snapshot_policies{kind="ClusterObjectPolicy"} 0
usher_snapshot_policies{kind="ClusterValidatePolicy"} 1
# HELP usher_snapshot_rules Rules of policies in force.
# TYPE usher_snapshot_rules gauge
usher_snapshot_rules 3
# HELP usher_snapshot_timestamp_seconds When the set of policies came into force, in seconds since 1970.
# TYPE usher_snapshot_timestamp_seconds gauge
usher_snapshot_timestamp_seconds 1.70000000025e+09
# HELP usher_snapshot_surplus_policies Policies that are not in force because their namespace has too many.
# TYPE usher_snapshot_surplus_policies gauge
usher_snapshot_surplus_policies 7
# HELP usher_snapshot_suspended_policies Policies that decide nothing, because they are suspended.
# TYPE usher_snapshot_suspended_policies gauge
usher_snapshot_suspended_policies{kind="ClusterObjectPolicy"} 0
usher_snapshot_suspended_policies{kind="ClusterValidatePolicy"} 1
# HELP usher_source_errors Documents in the sources that could not be read as policies.
# TYPE usher_source_errors gauge
usher_source_errors 5
`, names...)
}

func TestSnapshotAge(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	m := metrics.New(registry)
	m.Snapshot(usher.Snapshot{Since: time.Now().Add(-time.Hour)})
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != "usher_snapshot_age_seconds" {
			continue
		}
		if age := family.GetMetric()[0].GetGauge().GetValue(); age < 3600 || age > 3700 {
			t.Errorf("age is %v s, want about an hour", age)
		}
		return
	}
	t.Error("there is no age")
}

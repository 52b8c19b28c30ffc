package live_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/live"
	"github.com/usher-dev/usher/observe/metrics"
	"github.com/usher-dev/usher/source/dir"
)

// The metrics of a program that embeds policies are of those in force: the series of a policy end with it, and
// problems are counted, also those that trying finds.
func TestMetricsFollow(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	counts := metrics.New(registry)
	updates := make(chan usher.Snapshot, 100)
	l := live.New(live.Options{InProcess: true, OnUpdate: func(s usher.Snapshot) {
		counts.Snapshot(s)
		updates <- s
	}})
	folder := t.TempDir()
	write := func(file, policy string) {
		if err := os.WriteFile(filepath.Join(folder, file), []byte(policy), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("misspelled.yaml", misspelled)
	write("gone.yaml", strings.NewReplacer("require-team", "gone", "metdata", "metadata").Replace(misspelled))
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx, dir.New(folder)) }()
	t.Cleanup(func() {
		stop()
		<-ended
	})
	if err := l.WaitTried(ctx); err != nil {
		t.Fatal(err)
	}
	until(t, updates, func(s usher.Snapshot) bool {
		return s.Policies["ClusterObjectPolicy"] == 2 && s.Problems["mistake"] == 1
	})
	request := createPod()
	if _, err := counts.Wrap(l, "embedded").Decide(ctx, request); err != nil {
		t.Fatal(err)
	}
	const head = "# HELP usher_policy_evaluations_total Rules of the policy that ran.\n# TYPE usher_policy_evaluations_total counter\n"
	const misspelled = `usher_policy_evaluations_total{policy_kind="ClusterObjectPolicy",policy_name="require-team",policy_namespace=""} 1` + "\n"
	const gone = `usher_policy_evaluations_total{policy_kind="ClusterObjectPolicy",policy_name="gone",policy_namespace=""} 1` + "\n"
	if err := testutil.GatherAndCompare(registry, strings.NewReader(head+gone+misspelled), "usher_policy_evaluations_total"); err != nil {
		t.Error(err)
	}
	const problems = `# HELP usher_policy_problems Problems of policies, by severity: error, mistake or warning.
# TYPE usher_policy_problems gauge
usher_policy_problems{severity="error"} 0
usher_policy_problems{severity="mistake"} 1
usher_policy_problems{severity="warning"} 0
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(problems), "usher_policy_problems"); err != nil {
		t.Error(err)
	}
	if err := os.Remove(filepath.Join(folder, "gone.yaml")); err != nil {
		t.Fatal(err)
	}
	until(t, updates, func(s usher.Snapshot) bool { return s.Policies["ClusterObjectPolicy"] == 1 })
	if err := testutil.GatherAndCompare(registry, strings.NewReader(head+misspelled), "usher_policy_evaluations_total"); err != nil {
		t.Error(err)
	}
}

// until waits for an update.
func until(t *testing.T, updates <-chan usher.Snapshot, arrived func(usher.Snapshot) bool) {
	t.Helper()
	for {
		select {
		case s := <-updates:
			if arrived(s) {
				return
			}
		case <-t.Context().Done():
			t.Fatal("no such update")
		}
	}
}

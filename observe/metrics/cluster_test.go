package metrics_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/usher-dev/usher/observe/metrics"
)

func TestCluster(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	m := metrics.New(registry)
	names := []string{"usher_source_staleness_seconds", "usher_registered", "usher_probe_success"}
	if n, err := testutil.GatherAndCount(registry, names...); n != 0 || err != nil {
		t.Errorf("%d series without a cluster, %v", n, err)
	}
	staleness, registered, called, known := 90*time.Second, false, false, true
	m.Cluster(metrics.ClusterState{
		Staleness: func() time.Duration { return staleness }, Registered: func() bool { return registered },
		Called: func() (bool, bool) { return called, known },
	})
	expect := func(want string) {
		t.Helper()
		if err := testutil.GatherAndCompare(registry, strings.NewReader(want), names...); err != nil {
			t.Error(err)
		}
	}
	const text = `# HELP usher_probe_success 1 if the leader's probes came back, 0 if API servers do not call the webhooks; only on the leader, and if known.
# TYPE usher_probe_success gauge
usher_probe_success %d
# HELP usher_registered 1 if the webhook configurations have what the policies need, 0 if they could not be written.
# TYPE usher_registered gauge
usher_registered %d
# HELP usher_source_staleness_seconds Time since the policies were last confirmed to be those of the cluster; up to half a minute is normal.
# TYPE usher_source_staleness_seconds gauge
usher_source_staleness_seconds %d
`
	expect(fmt.Sprintf(text, 0, 0, 90))
	staleness, registered, called = 0, true, true
	expect(fmt.Sprintf(text, 1, 1, 0))
	known = false
	if n, err := testutil.GatherAndCount(registry, "usher_probe_success"); n != 0 || err != nil {
		t.Errorf("%d series of probes that are somebody else's, %v", n, err)
	}
	m.Cluster(metrics.ClusterState{})
	if n, err := testutil.GatherAndCount(registry, names...); n != 0 || err != nil {
		t.Errorf("%d series of what is not known, %v", n, err)
	}
}

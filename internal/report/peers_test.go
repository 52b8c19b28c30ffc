package report_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/usher-dev/usher/internal/replicas"
	"github.com/usher-dev/usher/internal/report"
)

// TestPeers follows what one replica knows of two others, of which one dies and the other is
// of a version that says nothing.
func TestPeers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		one := c.replica("one")
		two, crash := c.mortal("two")
		two.Registry().Serves("paths", "paths", "key-1")
		for _, r := range []*report.Reporter{one, two} {
			r.Observe(good(1))
		}
		time.Sleep(2 * time.Second)
		renewed, older := metav1.NewMicroTime(time.Now()), "older"
		if _, err := c.kube.CoordinationV1().Leases("usher").Create(t.Context(), &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Name: "usher-replica-older", Labels: map[string]string{replicas.LeaseLabel: replicas.LeaseReplica}},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: &older, RenewTime: &renewed},
		}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		expect := func(reason string, want ...string) {
			t.Helper()
			peers, err := one.Registry().Peers(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, p := range peers {
				text := p.Identity
				for _, word := range p.Serves {
					text += " " + word
				}
				if !p.Live {
					text += " dead"
				}
				if old := p.Identity == older; (len(p.Serves) == 0) != old || p.Started.IsZero() != old || p.Started.After(p.Renewed) {
					t.Errorf("%s: %s began at %v and was last seen at %v", reason, p.Identity, p.Started, p.Renewed)
				}
				got = append(got, text)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", reason, diff)
			}
		}
		expect("both live", "older", "two paths key-1")
		two.Registry().Serves("paths", "paths", "key-2", "key-1")
		time.Sleep(2 * time.Second)
		expect("another key, though the policies are the same", "older", "two paths key-2 key-1")
		crash()
		time.Sleep(20 * time.Second)
		expect("its Lease has not expired", "older", "two paths key-2 key-1")
		time.Sleep(40 * time.Second)
		expect("its Lease has expired", "older dead", "two paths key-2 key-1 dead")
	})
}

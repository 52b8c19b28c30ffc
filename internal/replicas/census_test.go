package replicas_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/usher-dev/usher/internal/replicas"
)

// lease is the Lease of a replica, renewed some seconds after the epoch by its own clock.
func lease(identity string, renewed int) coordinationv1.Lease {
	l := coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: replicas.LeaseName(identity)}}
	l.Spec.HolderIdentity = &identity
	at := metav1.NewMicroTime(time.Unix(int64(renewed), 0))
	l.Spec.RenewTime = &at
	return l
}

// TestCensus: a replica is alive as long as its Lease changes, whatever its clock says; one that was deposed is
// dead until then.
func TestCensus(t *testing.T) {
	t.Parallel()
	census, began := replicas.Census{Deposed: "deposed"}, time.Now()
	for _, step := range []struct {
		at     time.Duration
		leases []coordinationv1.Lease
		want   []string
	}{
		{0, []coordinationv1.Lease{lease("own", 0), lease("two", 5000), lease("deposed", 1), {ObjectMeta: metav1.ObjectMeta{Name: "never written"}}}, []string{"deposed false", "two true"}},
		{replicas.Expiry, []coordinationv1.Lease{lease("two", 5000), lease("deposed", 1)}, []string{"deposed false", "two true"}},
		{replicas.Expiry + time.Second, []coordinationv1.Lease{lease("two", 5000), lease("deposed", 2)}, []string{"deposed true", "two false"}},
		{replicas.Expiry + 2*time.Second, []coordinationv1.Lease{lease("two", 4000), lease("three", 9)}, []string{"three true", "two true"}},
		{replicas.Expiry + 3*time.Second, []coordinationv1.Lease{lease("deposed", 2)}, []string{"deposed false"}},
	} {
		var got []string
		for _, p := range census.Update(step.leases, replicas.LeaseName("own"), began.Add(step.at)) {
			got = append(got, fmt.Sprint(p.Identity, " ", p.Live))
		}
		if diff := cmp.Diff(step.want, got); diff != "" {
			t.Errorf("after %v (-want +got):\n%s", step.at, diff)
		}
	}
}

// TestLeaseNames: identities that differ have Leases with valid names that differ.
// TestDeadReplicasAreNotAwaited: to a new leader, a replica is dead whose Lease had expired before.
func TestDeadReplicasAreNotAwaited(t *testing.T) {
	t.Parallel()
	const began = 100_000
	census := replicas.Census{Dated: true}
	dead, slow := lease("dead", began-3600), lease("slow", began-3600)
	for _, step := range []struct {
		at     int
		leases []coordinationv1.Lease
		want   []string
	}{
		{0, []coordinationv1.Lease{dead, lease("fast", began+60), lease("late", began-20), slow}, []string{"dead false", "fast true", "late true", "slow false"}},
		{11, []coordinationv1.Lease{dead, lease("fast", began+70), lease("late", began-20), lease("slow", began-3590)}, []string{"dead false", "fast true", "late false", "slow true"}},
	} {
		var got []string
		for _, p := range census.Update(step.leases, replicas.LeaseName("own"), time.Unix(int64(began+step.at), 0)) {
			got = append(got, fmt.Sprint(p.Identity, " ", p.Live))
		}
		if diff := cmp.Diff(step.want, got); diff != "" {
			t.Errorf("after %d s (-want +got):\n%s", step.at, diff)
		}
	}
}

func TestLeaseNames(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for _, identity := range []string{"usher-1", "Usher-1", "usher_1", "usher.1", "-usher-1-", string(make([]byte, 500))} {
		name := replicas.LeaseName(identity)
		if other, ok := seen[name]; ok || len(name) > 253 {
			t.Errorf("%q has the name %s, as %q", identity, name, other)
		}
		seen[name] = identity
	}
}

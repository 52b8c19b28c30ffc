package report_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/usher-dev/usher/internal/replicas"
	"github.com/usher-dev/usher/internal/report"
	"github.com/usher-dev/usher/internal/rule"
)

// TestANewLeaderKeepsTheStatusUntilItKnowsBetter: Enforced does not flap with leaders.
func TestANewLeaderKeepsTheStatusUntilItKnowsBetter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.create("a", "u", 1)
		s := good(1)
		s.Policies[0].Admission = true
		c.verify = func(ctx context.Context, tell func(report.Calls)) {
			tell(report.Calls{State: report.CallsSeen})
			<-ctx.Done()
		}
		one, stop := c.stoppable("one")
		one.Observe(s)
		time.Sleep(time.Second)
		c.wantEnforced("a", "True Enforced 1")
		c.verify = func(ctx context.Context, tell func(report.Calls)) { <-ctx.Done() }
		two := c.replica("two")
		two.Observe(s)
		time.Sleep(time.Second)
		c.clear()
		stop()
		time.Sleep(time.Minute)
		if !two.Registry().Leads() || c.patches() > 0 {
			t.Errorf("two leads: %t, %d status writes, want none", two.Registry().Leads(), c.patches())
		}
		c.wantEnforced("a", "True Enforced 1")
	})
}

// TestACrashedLeaderIsReplaced: within 20 seconds another replica leads, and does not wait for
// the dead one to confirm what it enforces.
func TestACrashedLeaderIsReplaced(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.create("a", "u", 2)
		one, crash := c.mortal("one")
		one.Observe(good(1))
		time.Sleep(time.Second)
		two, three := c.replica("two"), c.replica("three")
		two.Observe(good(1))
		three.Observe(good(1))
		time.Sleep(time.Minute)
		crash()
		crashed := time.Now()
		two.Observe(good(2))
		three.Observe(good(2))
		for !two.Registry().Leads() && !three.Registry().Leads() {
			if time.Since(crashed) > time.Minute {
				t.Fatal("nobody leads")
			}
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(2 * time.Second)
		c.wantEnforced("a", "True Enforced 2")
		if took := time.Since(crashed); took > 20*time.Second {
			t.Errorf("it took %s, want at most 20s", took)
		}
	})
}

func TestOneReplicaLeads(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		one, stop := c.stoppable("one")
		one.Observe(good(1))
		time.Sleep(time.Second)
		two := c.replica("two")
		two.Observe(good(1))
		time.Sleep(time.Minute)
		if !one.Registry().Leads() || two.Registry().Leads() {
			t.Errorf("one leads: %t, two leads: %t, want one alone", one.Registry().Leads(), two.Registry().Leads())
		}
		if one.Registry().Leader() != "one" || two.Registry().Leader() != "one" {
			t.Errorf("the leader is %q and %q, want one", one.Registry().Leader(), two.Registry().Leader())
		}
		stop()
		time.Sleep(time.Minute)
		if one.Registry().Leads() || !two.Registry().Leads() {
			t.Errorf("after its end one leads: %t, two leads: %t", one.Registry().Leads(), two.Registry().Leads())
		}
	})
}

// TestOnlyTheLeaderDoesWhatOneReplicaDoes ends terms in good order and by a crash: within 20 s the
// work goes on elsewhere.
func TestOnlyTheLeaderDoesWhatOneReplicaDoes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		var mu sync.Mutex
		working := map[string]bool{}
		set := func(identity string, works bool) {
			mu.Lock()
			defer mu.Unlock()
			working[identity] = works
		}
		c.lead = func(ctx context.Context, identity string) {
			set(identity, true)
			<-ctx.Done()
			set(identity, false)
		}
		expect := func(identity string) {
			t.Helper()
			mu.Lock()
			defer mu.Unlock()
			for other, works := range working {
				if works != (other == identity) {
					t.Errorf("replica %s works: %t, but %s leads", other, works, identity)
				}
			}
			if !working[identity] {
				t.Errorf("replica %s does not work", identity)
			}
		}
		one, stop := c.stoppable("one")
		one.Observe(good(1))
		time.Sleep(time.Second)
		two, crash := c.mortal("two")
		two.Observe(good(1))
		time.Sleep(time.Minute)
		expect("one")
		stop()
		time.Sleep(20 * time.Second)
		expect("two")
		c.replica("three").Observe(good(1))
		time.Sleep(time.Minute)
		expect("two")
		crash()
		time.Sleep(20 * time.Second)
		expect("three")
	})
}

func TestALeaderTakesOverAndWritesOnlyDifferences(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		var s report.Snapshot
		for i := range 10 {
			name := fmt.Sprint("p", i)
			c.create(name, name, 1)
			s.Policies = append(s.Policies, rule.State{Policy: ref(name), UID: uid(name), Generation: 1, Compiled: true, Enforced: true})
		}
		one, stop := c.stoppable("one")
		one.Observe(s)
		two := c.replica("two")
		two.Observe(s)
		time.Sleep(10 * time.Second)
		stop()
		if n := c.patches(); n != 10 {
			t.Fatalf("%d status writes, want 10", n)
		}
		before := c.status("p3")
		c.clear()

		next := report.Snapshot{Policies: append([]rule.State(nil), s.Policies...)}
		next.Policies[4].Generation = 2
		two.Observe(next)
		time.Sleep(10 * time.Second)
		if n := c.patches(); n != 1 {
			t.Errorf("%d status writes, want 1: the policy that changed", n)
		}
		c.wantEnforced("p4", "True Enforced 2")
		if d := cmp.Diff(before, c.status("p3")); d != "" {
			t.Errorf("status of another policy changed:\n%s", d)
		}
		if d := cmp.Diff([]string{"usher-leader", "usher-replica-two"}, c.leaseNames()); d != "" {
			t.Errorf("leases (-want +got):\n%s", d)
		}
	})
}

func TestLeases(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		var s report.Snapshot
		for i := range 10_000 {
			s.Policies = append(s.Policies, rule.State{
				Policy: ref("p"), UID: uid(fmt.Sprint(i)), Generation: 1, Compiled: true, Enforced: true,
			})
		}
		s.Generation = 7
		c.policies.PrependReactor("patch", "*", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, errors.New("no") })
		c.replica("One.example_org").Observe(s)
		time.Sleep(time.Second)
		var lease *coordinationv1.Lease
		list, err := c.kube.CoordinationV1().Leases("usher").List(t.Context(), metav1.ListOptions{LabelSelector: replicas.LeaseLabel + "=" + replicas.LeaseReplica})
		if err != nil || len(list.Items) != 1 {
			t.Fatalf("leases are %v, %v, want one", list, err)
		}
		lease = &list.Items[0]
		if !strings.HasPrefix(lease.Name, "usher-replica-one-example-org-") || *lease.Spec.HolderIdentity != "One.example_org" {
			t.Errorf("lease %s of %s", lease.Name, *lease.Spec.HolderIdentity)
		}
		if n := len(lease.Annotations[report.EnforcedAnnotation]); n < 500 || n > 1000 {
			t.Errorf("annotation has %d bytes for 10,000 policies, want less than 1,000", n)
		}
		if lease.Annotations[report.SnapshotAnnotation] != "7" {
			t.Errorf("annotations are %v", lease.Annotations)
		}
	})
}

func TestRunNeedsAnIdentity(t *testing.T) {
	t.Parallel()
	if err := report.New(nil, kubefake.NewClientset(), report.Options{Namespace: "usher"}).Run(t.Context()); err == nil {
		t.Error("Run without identity gives no error")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := report.New(nil, kubefake.NewClientset(), report.Options{Namespace: "usher", Identity: "one"})
	if err := r.Run(ctx); err != nil {
		t.Errorf("Run that is done before there is anything to report: %v", err)
	}
}

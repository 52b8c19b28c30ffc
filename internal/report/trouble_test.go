package report_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"

	"github.com/usher-dev/usher/internal/report"
	"github.com/usher-dev/usher/internal/rule"
)

func TestTroubleWithTheAPIServer(t *testing.T) {
	t.Parallel()
	resource := schema.GroupResource{Group: "policy.kcloudlabs.io", Resource: "clusteroverridepolicies"}
	for _, test := range []struct {
		reason string
		err    error
		atMost int
	}{
		{"throttled", apierrors.NewTooManyRequests("slow down", 20), 6},
		{"no connection", errors.New("connection refused"), 10},
		{"one policy is refused, as by somebody's webhook", apierrors.NewForbidden(resource, "a", errors.New("no")), 4},
		{"a conflict", apierrors.NewConflict(resource, "a", errors.New("no")), 4},
	} {
		t.Run(test.reason, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t)
				c.create("a", "u", 1)
				var failing atomic.Bool
				failing.Store(true)
				c.policies.PrependReactor("patch", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
					return failing.Load(), nil, test.err
				})
				c.replica("one").Observe(good(1))
				time.Sleep(2 * time.Minute)
				if n := c.patches(); n < 2 || n > test.atMost {
					t.Errorf("%d attempts in two minutes, want 2 to %d", n, test.atMost)
				}
				failing.Store(false)
				time.Sleep(2 * time.Minute)
				c.wantEnforced("a", "True Enforced 1")
			})
		})
	}
}

func TestOneRefusedPolicyHoldsNothingUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.create("a", "u", 1)
		c.create("b", "recreated", 1)
		c.create("c", "w", 1)
		var s report.Snapshot
		for _, name := range []string{"a", "b", "c", "gone"} {
			s.Policies = append(s.Policies, rule.State{
				Policy: ref(name), UID: uid(map[string]string{"a": "u", "b": "v", "c": "w", "gone": "x"}[name]),
				Generation: 1, Compiled: true, Enforced: true,
			})
		}
		s.Policies = append(s.Policies, rule.State{Policy: ref("file"), Generation: 1, Compiled: true, Enforced: true})
		one := c.replica("one")
		one.Observe(s)
		time.Sleep(5 * time.Second)
		c.wantEnforced("a", "True Enforced 1")
		c.wantEnforced("c", "True Enforced 1")
		if got := c.status("b"); len(got) > 0 {
			t.Errorf("status of the policy of the same name is %v, want none", got)
		}
		s.Policies[1].UID = "recreated"
		one.Observe(s)
		time.Sleep(5 * time.Second)
		c.wantEnforced("b", "True Enforced 1")
	})
}

// TestDefinitionsWithoutStatus are those of kinitiras.
func TestDefinitionsWithoutStatus(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		var s report.Snapshot
		for i := range 100 {
			name := fmt.Sprint("p", i)
			c.create(name, name, 1)
			s.Policies = append(s.Policies, rule.State{Policy: ref(name), UID: uid(name), Generation: 1, Compiled: true, Enforced: true})
		}
		var applied atomic.Bool
		c.policies.PrependReactor("patch", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
			return !applied.Load(), nil, notFound(a)
		})
		c.replica("one").Observe(s)
		time.Sleep(10*time.Minute - time.Second)
		if n := c.patches(); n != 10 {
			t.Errorf("%d status writes, want one attempt a minute", n)
		}
		if n := c.log.count("policies of this kind have no status"); n != 1 {
			t.Errorf("%d log records that say what to do, want 1", n)
		}
		applied.Store(true)
		time.Sleep(2 * time.Minute)
		c.wantEnforced("p0", "True Enforced 1")
		c.wantEnforced("p99", "True Enforced 1")
	})
}

func notFound(a clienttesting.Action) error {
	return apierrors.NewNotFound(a.GetResource().GroupResource(), a.(clienttesting.PatchAction).GetName())
}

// TestAPolicyThatIsWrittenAnew says nothing of its kind: its UID is no longer that of the status.
func TestAPolicyThatIsWrittenAnew(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.create("b", "before", 1)
		c.create("c", "w", 1)
		var once sync.Once
		c.policies.PrependReactor("patch", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
			if a.(clienttesting.PatchAction).GetName() != "b" {
				return false, nil, nil
			}
			var err error
			once.Do(func() { // The policy is gone when its status is written, and there again when that is looked into.
				err = notFound(a)
				if e := c.policies.Tracker().Delete(a.GetResource(), "", "b"); e != nil {
					t.Error(e)
				}
				c.create("b", "after", 1)
			})
			return err != nil, nil, err
		})
		s := report.Snapshot{Policies: []rule.State{{Policy: ref("b"), UID: "before", Generation: 1, Compiled: true, Enforced: true}}}
		one := c.replica("one")
		one.Observe(s)
		time.Sleep(5 * time.Second)
		s.Policies = []rule.State{{Policy: ref("b"), UID: "after", Generation: 1, Compiled: true, Enforced: true}, {Policy: ref("c"), UID: "w", Generation: 1, Compiled: true, Enforced: true}}
		one.Observe(s)
		time.Sleep(5 * time.Second)
		c.wantEnforced("b", "True Enforced 1")
		c.wantEnforced("c", "True Enforced 1")
		if n := c.log.count("policies of this kind have no status"); n != 0 {
			t.Errorf("%d log records about the definition, want none", n)
		}
	})
}

// TestAKindThatMayNotBeRead: a ClusterRole that does not have a kind does not keep the status of
// others from being written, nor from being withdrawn.
func TestAKindThatMayNotBeRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.create("a", "u", 1)
		forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "objectpolicies"}, "", errors.New("no rule"))
		c.policies.PrependReactor("list", "objectpolicies", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, forbidden })
		c.replica("one").Observe(good(1))
		time.Sleep(10 * time.Second)
		c.wantEnforced("a", "True Enforced 1")
		if n := c.log.count("the status of policies of a kind is not read"); n != 1 {
			t.Errorf("%d log records that say what is left out, want 1", n)
		}
		if n, err := report.Withdraw(t.Context(), c.policies, "NoServer", "gone"); n != 1 || !errors.Is(err, forbidden) {
			t.Errorf("%d statuses written, %v", n, err)
		}
		c.wantEnforced("a", "False NoServer 1")
	})
}

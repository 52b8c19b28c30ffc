package cluster_test

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/usher-dev/usher/source/cluster"
)

func TestAMissingKindDoesNotHoldUpTheOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client := newClient(policy("OverridePolicy", "shop", "o", "x: 1"), policy("ClusterOverridePolicy", "", "c", "x: 1"))
		fault := inject(client, "overridepolicies")
		fault.set(apierrors.NewNotFound(overrides.GroupResource(), ""))
		s, updates := run(t, client, cluster.Options{})

		time.Sleep(9 * time.Second)
		synctest.Wait()
		if n := updates.count(); n != 0 {
			t.Fatalf("%d updates before the kind has had its time", n)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		updates.expect(t, "ClusterOverridePolicy c, unreadable: read policies of kind OverridePolicy: the cluster has no such kind in policy.kcloudlabs.io/v1alpha1")
		if do := updates.last(t).Unreadable[0].Do; !strings.Contains(do, "install the CRDs") {
			t.Errorf("what to do: %q", do)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if n := updates.count(); n != 1 {
			t.Errorf("%d updates although nothing changes", n)
		}
		if stale := s.Staleness(); stale > time.Minute {
			t.Errorf("stale for %s although the API server answers", stale)
		}

		fault.set(nil)
		time.Sleep(6 * time.Second)
		settle()
		updates.expect(t, "ClusterOverridePolicy c, OverridePolicy shop/o")
		if n := updates.count(); n != 2 {
			t.Errorf("%d updates, want 2", n)
		}
	})
}

// TestKindsOfThisVersionThatTheClusterHasNot: a binary that is newer than CRDs and ClusterRole
// enforces the kinds that it can read, and reads the others as soon as it can.
func TestKindsOfThisVersionThatTheClusterHasNot(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		reason string
		err    error
		says   string
		do     string
		state  error
	}{
		{
			"no CRD", apierrors.NewNotFound(objectPolicies.GroupResource(), ""),
			"the cluster has no such kind in usher.dev/v1alpha1", "install the CRDs", cluster.ErrAbsent,
		},
		{
			"no rights", apierrors.NewForbidden(objectPolicies.GroupResource(), "", errors.New("no rule")),
			"Usher may not get, list or watch them", "apply the ClusterRole of this version of Usher", cluster.ErrForbidden,
		},
	} {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				stored := policy("ClusterObjectPolicy", "", "o", "x: 1")
				stored.SetAPIVersion(objectPolicies.GroupVersion().String())
				client := newClient(stored, policy("ClusterOverridePolicy", "", "c", "x: 1"))
				fault := inject(client, objectPolicies.Resource)
				fault.set(test.err)
				s, updates := run(t, client, cluster.Options{})
				time.Sleep(11 * time.Second)
				synctest.Wait()
				updates.expect(t, "ClusterOverridePolicy c, unreadable: read policies of kind ClusterObjectPolicy: "+test.says)
				if do := updates.last(t).Unreadable[0].Do; !strings.Contains(do, test.do) {
					t.Errorf("what to do: %q", do)
				}
				for _, r := range s.Readings() {
					if want := r.Kind.Kind == "ClusterObjectPolicy"; errors.Is(r.Err, test.state) != want {
						t.Errorf("%s: %v, want %v: %t", r.Kind.Kind, r.Err, test.state, want)
					}
				}
				fault.set(nil)
				time.Sleep(6 * time.Second)
				settle()
				updates.expect(t, "ClusterOverridePolicy c, ClusterObjectPolicy o")
			})
		})
	}
}

func TestAKindThatGoes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client := newClient(policy("OverridePolicy", "shop", "o", "x: 1"))
		fault := inject(client, "overridepolicies")
		_, updates := run(t, client, cluster.Options{Wait: time.Minute})
		settle()
		fault.set(apierrors.NewNotFound(overrides.GroupResource(), ""))
		fault.stop()
		time.Sleep(50 * time.Second)
		settle()
		updates.expect(t, "OverridePolicy shop/o")
		time.Sleep(20 * time.Second)
		settle()
		updates.expect(t, "unreadable: read policies of kind OverridePolicy: the cluster has no such kind")
	})
}

func TestNothingIsHandedOverBeforeAllIsKnown(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		reason string
		err    error
	}{
		{"the API server is away", errors.New("connection refused")},
		{"the API server is busy", apierrors.NewServiceUnavailable("starting")},
		{"no permission", apierrors.NewForbidden(overrides.GroupResource(), "", errors.New("no rule"))},
	} {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				client := newClient(policy("OverridePolicy", "shop", "o", "x: 1"), policy("ClusterOverridePolicy", "", "c", "x: 1"))
				fault := inject(client, "overridepolicies")
				fault.set(test.err)
				s, updates := run(t, client, cluster.Options{})
				time.Sleep(time.Hour)
				synctest.Wait()
				if n := updates.count(); n != 0 {
					t.Errorf("%d updates", n)
				}
				if stale := s.Staleness(); stale != time.Hour {
					t.Errorf("stale for %s, want an hour", stale)
				}
				if err := s.Unread(); !errors.Is(err, test.err) || !strings.HasPrefix(err.Error(), "read policies of kind OverridePolicy: ") {
					t.Errorf("unread: %v, want %v", err, test.err)
				}
				fault.set(nil)
				time.Sleep(6 * time.Second)
				settle()
				if err := s.Unread(); err != nil {
					t.Errorf("unread: %v after all was read", err)
				}
				updates.expect(t, "ClusterOverridePolicy c, OverridePolicy shop/o")
			})
		})
	}
}

func TestTheAPIServerRestarts(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		reason string
		err    error
		during string
	}{
		{"away", errors.New("connection refused"), "OverridePolicy shop/o"},
		{
			"no longer permitted", apierrors.NewForbidden(overrides.GroupResource(), "", errors.New("no rule")),
			"OverridePolicy shop/o, unreadable: read policies of kind OverridePolicy: Usher may not get, list or watch them",
		},
	} {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				client := newClient(policy("OverridePolicy", "shop", "o", "x: 1"))
				fault := inject(client, "overridepolicies")
				s, updates := run(t, client, cluster.Options{})
				time.Sleep(time.Hour)
				settle()
				if stale := s.Staleness(); stale > 30*time.Second {
					t.Errorf("stale for %s although all is well", stale)
				}

				fault.set(test.err)
				fault.stop()
				time.Sleep(time.Minute)
				create(t, client, overrides, policy("OverridePolicy", "shop", "p", "x: 1"))
				settle()
				updates.expect(t, test.during)
				if stale := s.Staleness(); stale < 30*time.Second {
					t.Errorf("stale for %s only", stale)
				}

				fault.set(nil)
				time.Sleep(6 * time.Second)
				settle()
				updates.expect(t, "OverridePolicy shop/o, OverridePolicy shop/p")
				if stale := s.Staleness(); stale > 20*time.Second {
					t.Errorf("stale for %s although it is back", stale)
				}
			})
		})
	}
}

// A fault keeps a resource from being read while it has an error, and can end its watches.
type fault struct {
	err      atomic.Pointer[error]
	watchers chan watch.Interface
}

func inject(client *fake.FakeDynamicClient, resource string) *fault {
	f := &fault{watchers: make(chan watch.Interface, 100)}
	client.PrependReactor("list", resource, func(clienttesting.Action) (bool, runtime.Object, error) {
		if err := f.err.Load(); err != nil {
			return true, nil, *err
		}
		return false, nil, nil
	})
	client.PrependWatchReactor(resource, func(action clienttesting.Action) (bool, watch.Interface, error) {
		if err := f.err.Load(); err != nil {
			return true, nil, *err
		}
		w, err := client.Tracker().Watch(action.GetResource(), action.GetNamespace())
		f.watchers <- w
		return true, w, err
	})
	return f
}

func (f *fault) set(err error) {
	if err == nil {
		f.err.Store(nil)
		return
	}
	f.err.Store(&err)
}

func (f *fault) stop() {
	for {
		select {
		case w := <-f.watchers:
			w.Stop()
		default:
			return
		}
	}
}

package cluster_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/source"
	"github.com/usher-dev/usher/source/cluster"
)

// A serving is the versions of admission policies that an API server serves, and what else keeps
// them from being read.
type serving struct {
	*fake.FakeDynamicClient

	mu       sync.Mutex
	versions map[string]bool
	fault    error
	watches  []watch.Interface
}

func serve(versions string, objects ...runtime.Object) *serving {
	kinds := map[schema.GroupVersionResource]string{}
	for _, versions := range api.ForeignKinds() {
		for _, k := range versions {
			kinds[k.GroupVersionResource()] = k.Kind + "List"
		}
	}
	s := &serving{FakeDynamicClient: fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), kinds, objects...)}
	s.now(versions)
	s.PrependReactor("list", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		err := s.refuses(action.GetResource())
		return err != nil, nil, err
	})
	s.PrependWatchReactor("*", func(action clienttesting.Action) (bool, watch.Interface, error) {
		if err := s.refuses(action.GetResource()); err != nil {
			return true, nil, err
		}
		w, err := s.Tracker().Watch(action.GetResource(), "")
		s.mu.Lock()
		defer s.mu.Unlock()
		s.watches = append(s.watches, w)
		return true, w, err
	})
	return s
}

func (s *serving) refuses(r schema.GroupVersionResource) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fault == nil && !s.versions[r.Version] {
		return apierrors.NewNotFound(r.GroupResource(), "")
	}
	return s.fault
}

func (s *serving) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = err
}

// now sets the versions, separated by commas, and ends all watches.
func (s *serving) now(versions string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.versions = map[string]bool{}
	for _, w := range s.watches {
		w.Stop()
	}
	s.watches = nil
	for version := range strings.SplitSeq(versions, ", ") {
		s.versions[version] = true
	}
}

func admissionPolicy(version, name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "admissionregistration.k8s.io/" + version, "kind": "ValidatingAdmissionPolicy",
		"metadata": map[string]any{"name": name, "uid": "uid-" + name},
		"spec": map[string]any{
			"matchConstraints": map[string]any{"resourceRules": []any{map[string]any{
				"apiGroups": []any{""}, "apiVersions": []any{"v1"}, "operations": []any{"CREATE"}, "resources": []any{"pods"},
			}}},
			"validations": []any{map[string]any{"expression": "object.metadata.name != '" + name + "'"}},
		},
	}}
}

func follow(t *testing.T, client *serving, o cluster.Options) (*cluster.Source, *updates) {
	t.Helper()
	s, u := cluster.Admission(client, o), &updates{}
	go func() {
		_ = s.Run(t.Context(), func(set source.Set) {
			u.mu.Lock()
			defer u.mu.Unlock()
			u.sets = append(u.sets, set)
		})
	}()
	return s, u
}

// readings is how kinds are read, each as in "ValidatingAdmissionPolicy v1".
func readings(s *cluster.Source) map[string]string {
	all := map[string]string{}
	for _, r := range s.Readings() {
		switch {
		case errors.Is(r.Err, cluster.ErrAbsent):
			all[r.Kind.Kind] = "absent"
		case errors.Is(r.Err, cluster.ErrForbidden):
			all[r.Kind.Kind] = "forbidden"
		case r.Err != nil:
			all[r.Kind.Kind] = r.Err.Error()
		default:
			all[r.Kind.Kind] = r.Version
		}
	}
	return all
}

func TestAdmissionPoliciesAreReadInTheNewestVersion(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ reason, served, want string }{
		{"all of them", "v1, v1beta1, v1alpha1", "v1"},
		{"a server that is older", "v1beta1, v1alpha1", "v1beta1"},
		{"a server with nothing but the first", "v1alpha1", "v1alpha1"},
	} {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				client := serve(test.served, admissionPolicy("v1", "p"), admissionPolicy("v1beta1", "p"), admissionPolicy("v1alpha1", "p"))
				s, updates := follow(t, client, cluster.Options{})
				time.Sleep(15 * time.Second)
				settle()
				updates.expect(t, "ValidatingAdmissionPolicy p")
				if got := readings(s)["ValidatingAdmissionPolicy"]; got != test.want {
					t.Errorf("it is read as %s, want %s", got, test.want)
				}
				policy, ok := updates.last(t).Policies[0].Object.(*admissionv1.ValidatingAdmissionPolicy)
				if !ok || policy.Spec.Validations[0].Expression != "object.metadata.name != 'p'" || policy.UID != "uid-p" {
					t.Errorf("the policy is %+v", updates.last(t).Policies[0].Object)
				}
			})
		})
	}
}

func TestKindsOfAdmissionPoliciesThatAreNotServed(t *testing.T) {
	t.Parallel()
	for _, lenient := range []bool{false, true} {
		t.Run(fmt.Sprintf("lenient=%t", lenient), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				client := serve("v2", admissionPolicy("v1", "p"))
				s, updates := follow(t, client, cluster.Options{Lenient: lenient})
				time.Sleep(9 * time.Second)
				synctest.Wait()
				if n := updates.count(); n != 0 {
					t.Fatalf("%d updates before the kinds have had their time", n)
				}
				time.Sleep(2 * time.Second)
				settle()
				updates.expect(t, "")
				for kind, how := range readings(s) {
					if how != "absent" {
						t.Errorf("%s is %q, want absent", kind, how)
					}
				}
				time.Sleep(time.Hour)
				synctest.Wait()
				if n := updates.count(); n != 1 {
					t.Errorf("%d updates although nothing changes", n)
				}
				if n := len(client.Actions()); n > 3600*len(s.Readings()) {
					t.Errorf("%d requests in an hour", n)
				}
				client.now("v1")
				time.Sleep(2 * time.Minute)
				settle()
				updates.expect(t, "ValidatingAdmissionPolicy p")
			})
		})
	}
}

// TestAServerThatDropsAVersion is an upgrade: it ends v1beta1, and serves v1.
func TestAServerThatDropsAVersion(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client := serve("v1beta1", admissionPolicy("v1", "p"), admissionPolicy("v1beta1", "p"))
		s, updates := follow(t, client, cluster.Options{})
		time.Sleep(15 * time.Second)
		settle()
		updates.expect(t, "ValidatingAdmissionPolicy p")
		client.now("v1")
		time.Sleep(time.Minute)
		settle()
		updates.expect(t, "ValidatingAdmissionPolicy p")
		for i, set := range updates.sets {
			if len(set.Policies) != 1 {
				t.Errorf("update %d has %d policies: it was never gone", i, len(set.Policies))
			}
		}
		if got := readings(s)["ValidatingAdmissionPolicy"]; got != "v1" {
			t.Errorf("it is read as %s, want v1", got)
		}
	})
}

func TestAdmissionPoliciesThatCannotBeRead(t *testing.T) {
	t.Parallel()
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "validatingadmissionpolicies"}, "", errors.New("no rule"))
	for _, test := range []struct {
		reason  string
		err     error
		lenient bool
		told    string
		updates int
	}{
		{"policies that are in force are waited for", forbidden, false, "forbidden", 0},
		{"policies that are only known are not", forbidden, true, "forbidden", 1},
		{"a server that does not answer", errors.New("connection refused"), true, "connection refused", 1},
	} {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				client := serve("v1", admissionPolicy("v1", "p"))
				client.fail(test.err)
				s, updates := follow(t, client, cluster.Options{Lenient: test.lenient})
				time.Sleep(time.Hour)
				settle()
				if n := updates.count(); n != test.updates {
					t.Errorf("%d updates, want %d", n, test.updates)
				}
				if got := readings(s)["ValidatingAdmissionPolicy"]; got != test.told {
					t.Errorf("told is %q, want %q", got, test.told)
				}
				if n := len(client.Actions()); test.lenient && apierrors.IsForbidden(test.err) && n > 60*20 {
					t.Errorf("%d requests in an hour for what nobody waits for", n)
				}
				client.fail(nil)
				time.Sleep(2 * time.Minute)
				settle()
				updates.expect(t, "ValidatingAdmissionPolicy p")
			})
		})
	}
}

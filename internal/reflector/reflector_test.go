package reflector_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/usher-dev/usher/internal/reflector"
)

var resource = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

func TestReflector(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client := newClient(object("a", "1"))
		store, m, _ := start(t, client, reflector.Options{})

		if state := m.State(); !state.Synced || !state.Current || state.Err != nil {
			t.Errorf("state after the start: %+v", state)
		}
		store.expect(t, "a=1")

		create(t, client, object("b", "2"))
		if _, err := client.Resource(resource).Namespace("shop").Update(t.Context(), object("a", "3"), metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		store.expect(t, "a=3", "b=2")

		if err := client.Resource(resource).Namespace("shop").Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		store.expect(t, "b=2")
		if store.managed {
			t.Error("an object came with managedFields")
		}
	})
}

func TestFailures(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		reason, verb string
		err          error
		// synced says that the list works.
		synced bool
	}{
		{"no such kind", "list", apierrors.NewNotFound(resource.GroupResource(), ""), false},
		{"no permission", "list", apierrors.NewForbidden(resource.GroupResource(), "", errors.New("no")), false},
		{"an API server that does not answer", "list", errors.New("connection refused"), false},
		{"no permission to watch", "watch", apierrors.NewForbidden(resource.GroupResource(), "", errors.New("no")), true},
	} {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				client := newClient(object("a", "1"))
				fault := inject(client, test.verb)
				fault.err.Store(&test.err)
				begin := time.Now()
				store, m, changes := start(t, client, reflector.Options{Retry: 2 * time.Second})

				time.Sleep(time.Minute)
				synctest.Wait()
				state := m.State()
				if !errors.Is(state.Err, test.err) || state.Synced != test.synced || state.Current {
					t.Errorf("state while it fails: %+v, want the error %v", state, test.err)
				}
				if !state.Since.Equal(begin) || time.Since(state.Until) > 3*time.Second {
					t.Errorf("fails from %v to %v, want from %v to %v", state.Since, state.Until, begin, time.Now())
				}
				if n := changes(); n > 2 {
					t.Errorf("%d changes for one lasting failure", n)
				}

				fault.err.Store(nil)
				time.Sleep(4 * time.Second)
				synctest.Wait()
				if state := m.State(); state.Err != nil || !state.Since.IsZero() || !state.Current {
					t.Errorf("state when it works again: %+v", state)
				}
				store.expect(t, "a=1")
			})
		})
	}
}

func TestABrokenWatchIsRepaired(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client := newClient(object("a", "1"))
		broken := watch.NewFake()
		var used sync.Once
		client.PrependWatchReactor("*", func(clienttesting.Action) (bool, watch.Interface, error) {
			mine := false
			used.Do(func() { mine = true })
			return mine, broken, nil
		})
		fault := inject(client, "*")
		store, m, _ := start(t, client, reflector.Options{Retry: time.Hour})
		if !m.State().Current {
			t.Fatal("not current with a watch open")
		}
		away := errors.New("connection refused")
		fault.err.Store(&away)
		broken.Stop()
		synctest.Wait()
		create(t, client, object("b", "2"))
		if state := m.State(); state.Current || !state.Synced {
			t.Errorf("state while the API server is away: %+v", state)
		}
		store.expect(t, "a=1")

		time.Sleep(10 * time.Minute)
		fault.err.Store(nil)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if !m.State().Current {
			t.Error("not current although the API server is back")
		}
		store.expect(t, "a=1", "b=2")
	})
}

func TestSignsOfLife(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client := newClient()
		fault := inject(client, "list")
		_, m, changes := start(t, client, reflector.Options{Probe: 20 * time.Second})
		before := changes()

		time.Sleep(time.Hour)
		synctest.Wait()
		if silence := time.Since(m.State().Heard); silence > 20*time.Second {
			t.Errorf("silent for %s although probes are answered", silence)
		}
		if n := changes() - before; n != 0 {
			t.Errorf("probes made %d changes", n)
		}
		away := errors.New("connection refused")
		fault.err.Store(&away)
		time.Sleep(time.Hour)
		synctest.Wait()
		if silence := time.Since(m.State().Heard); silence < time.Hour-time.Minute {
			t.Errorf("heard %s ago although probes fail", silence)
		}
	})
}

func TestWithoutProbesOnlyEventsCount(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client := newClient()
		_, m, _ := start(t, client, reflector.Options{})
		time.Sleep(time.Hour)
		if silence := time.Since(m.State().Heard); silence != time.Hour {
			t.Errorf("silent for %s, want an hour", silence)
		}
		create(t, client, object("a", "1"))
		synctest.Wait()
		if silence := time.Since(m.State().Heard); silence != 0 {
			t.Errorf("silent for %s after an event", silence)
		}
	})
}

// start runs a reflector of client until the test ends; changes counts calls of Changed.
func start(t *testing.T, client *fake.FakeDynamicClient, o reflector.Options) (*store, *reflector.Reflector, func() int) {
	t.Helper()
	var mu sync.Mutex
	n := 0
	o.Changed = func() {
		mu.Lock()
		defer mu.Unlock()
		n++
	}
	s := &store{objects: map[string]string{}}
	m := reflector.New(client, resource, s, o)
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	go m.Run(ctx)
	synctest.Wait()
	return s, m, func() int {
		mu.Lock()
		defer mu.Unlock()
		return n
	}
}

func newClient(objects ...runtime.Object) *fake.FakeDynamicClient {
	return fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
		map[schema.GroupVersionResource]string{resource: "ConfigMapList"}, objects...)
}

// A fault makes a verb, or with * all, fail while there is an error.
type fault struct {
	verb string
	err  atomic.Pointer[error]
}

// inject prepares a fault, which has no error yet. It comes before the client is used.
func inject(client *fake.FakeDynamicClient, verb string) *fault {
	f := &fault{verb: verb}
	if verb != "list" {
		client.PrependWatchReactor("*", func(clienttesting.Action) (bool, watch.Interface, error) {
			err := f.err.Load()
			if err == nil {
				return false, nil, nil
			}
			return true, nil, *err
		})
	}
	if verb != "watch" {
		client.PrependReactor("list", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
			err := f.err.Load()
			if err == nil {
				return false, nil, nil
			}
			return true, nil, *err
		})
	}
	return f
}

func create(t *testing.T, client *fake.FakeDynamicClient, o *unstructured.Unstructured) {
	t.Helper()
	if _, err := client.Resource(resource).Namespace("shop").Create(t.Context(), o, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func object(name, value string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{
			"name": name, "namespace": "shop",
			"managedFields": []any{map[string]any{"manager": "kubectl"}},
		},
		"data": map[string]any{"value": value},
	}}
}

// A store shows what it holds as name=value.
type store struct {
	mu      sync.Mutex
	objects map[string]string
	managed bool
}

func (s *store) Replace(objects []*unstructured.Unstructured) {
	s.mu.Lock()
	s.objects = map[string]string{}
	s.mu.Unlock()
	for _, o := range objects {
		s.Set(o)
	}
}

func (s *store) Set(o *unstructured.Unstructured) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.managed = s.managed || len(o.GetManagedFields()) > 0
	s.objects[o.GetName()], _, _ = unstructured.NestedString(o.Object, "data", "value")
}

func (s *store) Delete(o *unstructured.Unstructured) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.objects, o.GetName())
}

func (s *store) expect(t *testing.T, want ...string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	var got []string
	for name, value := range s.objects {
		got = append(got, fmt.Sprintf("%s=%s", name, value))
	}
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("store (-want +got):\n%s", diff)
	}
}

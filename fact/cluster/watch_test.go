package cluster_test

import (
	"errors"
	"fmt"
	"strings"
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

	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/fact/cluster"
)

var configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

func TestAKindIsWatchedOnceItIsAskedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client := newClient(object("v1", "ConfigMap", "shop", "a", "web"))
		r := cluster.New(client, newMapper(configMap), cluster.Options{})
		run(t, r)

		expect(t, r, named("ConfigMap", "shop", "a"), "shop/a")
		synctest.Wait()
		client.ClearActions()
		expect(t, r, named("ConfigMap", "shop", "a"), "shop/a")
		expect(t, r, selected("ConfigMap", ""), "shop/a")
		expectActions(t, client)

		create(t, client, object("v1", "ConfigMap", "bank", "b", "web"))
		synctest.Wait()
		expect(t, r, selected("ConfigMap", ""), "bank/b")
		remove(t, client, "bank", "b")
		synctest.Wait()
		client.ClearActions()
		expect(t, r, selected("ConfigMap", ""), "shop/a")
		expectActions(t, client)

		if _, err := r.Resolve(t.Context(), named("ConfigMap", "bank", "b")); err == nil {
			t.Error("a deleted object was found")
		}
		expectActions(t, client, "get configmaps") // a watch may be late

		want := []cluster.Watched{{Kind: configMap, Objects: 1, Current: true}}
		if diff := cmp.Diff(want, r.Watched()); diff != "" {
			t.Errorf("watched (-want +got):\n%s", diff)
		}
	})
}

// TestCurrent: what is watched is known without waiting, as it is now; nothing else is.
func TestCurrent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client := newClient(object("v1", "ConfigMap", "shop", "a", "web"), object("v1", "Secret", "shop", "s", "web"))
		r := cluster.New(client, newMapper(configMap, secret), cluster.Options{})
		run(t, r)
		all := selected("ConfigMap", "shop")
		all.All = true
		names := func(o *fact.Object) string {
			t.Helper()
			value, known, err := r.Current(o)
			if err != nil {
				t.Fatal(err)
			}
			if !known {
				return "unknown"
			}
			list, ok := value.([]any)
			if !ok {
				list = []any{value}
			}
			var found []string
			for _, item := range list {
				tree, _ := item.(map[string]any)
				metadata, _ := tree["metadata"].(map[string]any)
				found = append(found, fmt.Sprint(metadata["name"]))
			}
			return strings.Join(found, " ")
		}
		liveList := *all
		liveList.Live = true
		live := func() {
			client.ClearActions()
			if value, err := r.Resolve(t.Context(), &liveList); err != nil || len(value.([]any)) != 1 {
				t.Errorf("a live list: %v, %v", value, err)
			}
			expectActions(t, client, "list configmaps")
		}
		for _, step := range []struct {
			reason string
			before func()
			of     *fact.Object
			want   string
		}{
			{"before the kind is watched", func() {}, named("ConfigMap", "shop", "a"), "unknown"},
			{"an object", func() { expect(t, r, named("ConfigMap", "shop", "a"), "shop/a") }, named("ConfigMap", "shop", "a"), "a"},
			{"all objects", func() {}, all, "a"},
			{"one that is new", func() { create(t, client, object("v1", "ConfigMap", "shop", "b", "web")) }, all, "a b"},
			{"the same list again", func() {}, all, "a b"},
			{"one that is gone", func() { remove(t, client, "shop", "a") }, all, "b"},
			{"by name: the watch may be late", func() {}, named("ConfigMap", "shop", "a"), "unknown"},
			{"a list that is read live", func() { live() }, &liveList, "unknown"},
			{"a Secret", func() { expect(t, r, named("Secret", "shop", "s"), "shop/s") }, named("Secret", "shop", "s"), "unknown"},
			{"a name without namespace", func() {}, named("ConfigMap", "", "b"), "unknown"},
		} {
			step.before()
			synctest.Wait()
			if got := names(step.of); got != step.want {
				t.Errorf("%s: %s, want %s", step.reason, got, step.want)
			}
		}
	})
}

func TestSecretsAreNeverWatched(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client := newClient(object("v1", "Secret", "shop", "s", "web"))
		r := cluster.New(client, newMapper(secret), cluster.Options{})
		run(t, r)
		r.Watch([]schema.GroupVersionKind{secret})
		for range 2 {
			expect(t, r, named("Secret", "shop", "s"), "shop/s")
			synctest.Wait()
		}
		expectActions(t, client, "get secrets", "get secrets")
	})
}

func TestUnusedKindsAreNoLongerWatched(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := cluster.New(newClient(), newMapper(configMap, node, widget), cluster.Options{Idle: time.Hour})
		run(t, r)
		r.Watch([]schema.GroupVersionKind{node, widget})
		expect(t, r, selected("ConfigMap", ""), "/")
		synctest.Wait()
		expectWatched(t, r, "ConfigMap", "Node", "Widget")

		time.Sleep(50 * time.Minute)
		expect(t, r, selected("ConfigMap", ""), "/")
		time.Sleep(50 * time.Minute)
		synctest.Wait()
		expectWatched(t, r, "ConfigMap", "Node", "Widget")

		time.Sleep(2 * time.Hour)
		synctest.Wait()
		expectWatched(t, r, "Node", "Widget")

		r.Watch([]schema.GroupVersionKind{node})
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		expectWatched(t, r, "Node")
	})
}

func TestTooManyKinds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := cluster.New(newClient(object("v1", "Node", "", "n", "web")), newMapper(configMap, node, widget), cluster.Options{MaxKinds: 1})
		run(t, r)
		expect(t, r, selected("ConfigMap", ""), "/")
		synctest.Wait()
		expect(t, r, selected("Node", ""), "/n")
		synctest.Wait()
		expectWatched(t, r, "ConfigMap")

		time.Sleep(2 * time.Minute)
		expect(t, r, selected("Node", ""), "/n")
		synctest.Wait()
		expectWatched(t, r, "Node")

		r.Watch([]schema.GroupVersionKind{widget})
		synctest.Wait()
		expectWatched(t, r, "Node", "Widget")
	})
}

func TestTooManyObjects(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		reason string
		before int
		after  int
	}{
		{"from the start", 4, 0},
		{"while they are watched", 2, 2},
	} {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				client := newClient()
				for i := range test.before {
					create(t, client, object("v1", "ConfigMap", "shop", fmt.Sprint(i), "web"))
				}
				r := cluster.New(client, newMapper(configMap), cluster.Options{MaxObjects: 3})
				run(t, r)
				expect(t, r, selected("ConfigMap", "shop"), "shop/0")
				synctest.Wait()
				for i := range test.after {
					create(t, client, object("v1", "ConfigMap", "shop", fmt.Sprint(test.before+i), "web"))
				}
				time.Sleep(2 * time.Second) // the reflector may be in a pause
				synctest.Wait()

				got := r.Watched()
				if len(got) != 1 || got[0].Current || got[0].Err == nil || !strings.Contains(got[0].Err.Error(), "more than 3") {
					t.Errorf("watched %+v, want that there are too many", got)
				}
				expect(t, r, named("ConfigMap", "shop", "3"), "shop/3")
				remove(t, client, "shop", "0")
				expect(t, r, selected("ConfigMap", "shop"), "shop/1")

				time.Sleep(12 * time.Minute)
				synctest.Wait()
				if got := r.Watched(); len(got) != 1 || !got[0].Current || got[0].Objects != 3 {
					t.Errorf("watched %+v when there are few enough", got)
				}
			})
		})
	}
}

func TestAKindThatCannotBeListedIsNotInTheWay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client := newClient(object("v1", "ConfigMap", "shop", "a", "web"), object("v1", "Node", "", "n", "web"))
		var granted atomic.Bool
		client.PrependReactor("list", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
			return !granted.Load(), nil, apierrors.NewForbidden(configMaps.GroupResource(), "", errors.New("no rule"))
		})
		r := cluster.New(client, newMapper(configMap, node), cluster.Options{})
		run(t, r)
		expect(t, r, named("ConfigMap", "shop", "a"), "shop/a")
		expect(t, r, named("Node", "", "n"), "/n")
		synctest.Wait()
		client.ClearActions()
		expect(t, r, named("Node", "", "n"), "/n")
		expectActions(t, client)
		expect(t, r, named("ConfigMap", "shop", "a"), "shop/a")
		expectActions(t, client, "get configmaps")
		if got := r.Watched(); len(got) != 2 || !apierrors.IsForbidden(got[0].Err) || !got[1].Current {
			t.Errorf("watched %+v", got)
		}

		granted.Store(true)
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		client.ClearActions()
		expect(t, r, named("ConfigMap", "shop", "a"), "shop/a")
		expectActions(t, client)
	})
}

func TestMemoryDoesNotCountWhileTheWatchIsInterrupted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client := newClient(object("v1", "ConfigMap", "shop", "b", "web"))
		broken := watch.NewFake()
		var used atomic.Bool
		client.PrependWatchReactor("*", func(clienttesting.Action) (bool, watch.Interface, error) {
			if used.Swap(true) {
				return true, nil, errors.New("no more watches")
			}
			return true, broken, nil
		})
		r := cluster.New(client, newMapper(configMap), cluster.Options{})
		run(t, r)
		r.Watch([]schema.GroupVersionKind{configMap})
		synctest.Wait()
		create(t, client, object("v1", "ConfigMap", "shop", "a", "web"))
		expect(t, r, selected("ConfigMap", "shop"), "shop/b") // the watch has not told

		broken.Stop()
		synctest.Wait()
		expect(t, r, selected("ConfigMap", "shop"), "shop/a")
	})
}

func BenchmarkResolve(b *testing.B) {
	client := newClient()
	for i := range 1000 {
		if err := client.Tracker().Add(object("v1", "ConfigMap", fmt.Sprint("ns-", i%20), fmt.Sprint("c", i), fmt.Sprint(i%10))); err != nil {
			b.Fatal(err)
		}
	}
	r := cluster.New(client, newMapper(configMap), cluster.Options{})
	go func() { _ = r.Run(b.Context()) }()
	r.Watch([]schema.GroupVersionKind{configMap})
	for len(r.Watched()) == 0 || !r.Watched()[0].Current {
		time.Sleep(time.Millisecond)
	}
	for name, ref := range map[string]*fact.Object{
		"name":                 named("ConfigMap", "ns-0", "c100"),
		"selector":             {APIVersion: "v1", Kind: "ConfigMap", Selector: label("7")},
		"selector, nothing":    {APIVersion: "v1", Kind: "ConfigMap", Selector: label("none")},
		"selector, namespaced": {APIVersion: "v1", Kind: "ConfigMap", Namespace: "ns-7", Selector: label("7")},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := r.Resolve(b.Context(), ref); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// expect resolves ref to the object namespace/name, or to nothing for "/".
func expect(t *testing.T, r *cluster.Resolver, ref *fact.Object, want string) {
	t.Helper()
	value, err := r.Resolve(t.Context(), ref)
	if err != nil {
		t.Errorf("%s: %v", ref, err)
	} else if got := fullName(value); got != want {
		t.Errorf("%s is %s, want %s", ref, got, want)
	}
}

// expectActions says what the client was asked since it was asked that last, or cleared.
func expectActions(t *testing.T, client *fake.FakeDynamicClient, want ...string) {
	t.Helper()
	var got []string
	for _, action := range client.Actions() {
		got = append(got, action.GetVerb()+" "+action.GetResource().Resource)
	}
	client.ClearActions()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("questions to the API server (-want +got):\n%s", diff)
	}
}

func expectWatched(t *testing.T, r *cluster.Resolver, want ...string) {
	t.Helper()
	var got []string
	for _, w := range r.Watched() {
		if !w.Current {
			t.Errorf("%s is not current: %v", w.Kind, w.Err)
		}
		got = append(got, w.Kind.Kind)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("watched (-want +got):\n%s", diff)
	}
}

func create(t *testing.T, client *fake.FakeDynamicClient, o *unstructured.Unstructured) {
	t.Helper()
	if _, err := client.Resource(configMaps).Namespace(o.GetNamespace()).Create(t.Context(), o, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, client *fake.FakeDynamicClient, namespace, name string) {
	t.Helper()
	if err := client.Resource(configMaps).Namespace(namespace).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

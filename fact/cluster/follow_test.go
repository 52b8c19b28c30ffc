package cluster_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"

	"github.com/usher-dev/usher/fact/cluster"
)

func TestChangesAreFollowed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client := newClient(object("v1", "ConfigMap", "shop", "a", "web"))
		r := cluster.New(client, newMapper(configMap), cluster.Options{Idle: time.Hour})
		run(t, r)
		var mu sync.Mutex
		var changes []string
		ctx, cancel := context.WithCancel(t.Context())
		var following sync.WaitGroup
		following.Go(func() {
			r.Follow(ctx, func(of schema.GroupVersionKind, namespace, name string) {
				if name == "b" {
					// The follower may ask at once.
					_, _ = r.Resolve(t.Context(), named("ConfigMap", namespace, name))
				}
				mu.Lock()
				defer mu.Unlock()
				changes = append(changes, of.Kind+" "+namespace+"/"+name)
			})
		})
		synctest.Wait()
		r.Await(t.Context(), configMap)
		create(t, client, object("v1", "ConfigMap", "bank", "b", "web"))
		synctest.Wait()
		remove(t, client, "shop", "a")
		synctest.Wait()
		// Nobody asks for a long time, and changes are told nevertheless.
		time.Sleep(24 * time.Hour)
		create(t, client, object("v1", "ConfigMap", "bank", "c", "web"))
		synctest.Wait()
		cancel()
		following.Wait()
		create(t, client, object("v1", "ConfigMap", "bank", "d", "web"))
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		changes = slices.Compact(changes)
		if diff := cmp.Diff([]string{"ConfigMap /", "ConfigMap bank/b", "ConfigMap shop/a", "ConfigMap bank/c"}, changes); diff != "" {
			t.Errorf("changes (-want +got):\n%s", diff)
		}
	})
}

func TestAwait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client := newClient(object("v1", "ConfigMap", "shop", "a", "web"))
		client.PrependReactor("list", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, errors.New("forbidden")
		})
		r := cluster.New(client, newMapper(configMap, node), cluster.Options{})
		run(t, r)
		r.Await(t.Context(), configMap)
		client.ClearActions()
		expect(t, r, named("ConfigMap", "shop", "a"), "shop/a")
		expectActions(t, client)
		// There is nothing to wait for.
		r.Await(t.Context(), secret)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		r.Await(ctx, node)
		if ctx.Err() != nil {
			t.Error("a kind that cannot be read is awaited for ever")
		}
	})
}

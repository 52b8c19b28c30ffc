// Command cluster says what the policies of a cluster decide about the creation of an object.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/door/admission"
	"github.com/usher-dev/usher/fact/cached"
	factcluster "github.com/usher-dev/usher/fact/cluster"
	"github.com/usher-dev/usher/live"
	"github.com/usher-dev/usher/observe/metrics"
	"github.com/usher-dev/usher/source/cluster"
)

func main() {
	live.Main() // Usher's own processes are this program: there it does not return.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx)
	stop()
	if err != nil {
		slog.Error("no decision", "error", err)
		os.Exit(1)
	}
}

// run decides about the object on the standard input, in JSON.
func run(ctx context.Context) error {
	object := &unstructured.Unstructured{}
	if err := json.NewDecoder(os.Stdin).Decode(object); err != nil {
		return fmt.Errorf("read object: %w", err)
	}
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(clientcmd.NewDefaultClientConfigLoadingRules(), nil).ClientConfig()
	if err != nil {
		return fmt.Errorf("read kubeconfig: %w", err)
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	kinds, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(kinds))
	e := newEngine(client, mapper, prometheus.NewRegistry()) // or the one that your program serves
	group, ctx := errgroup.WithContext(ctx)
	ctx, end := context.WithCancel(ctx)
	group.Go(func() error { return e.run(ctx) })
	group.Go(func() error {
		defer end()
		result, err := e.create(ctx, object, usher.User{Name: "jane", Groups: []string{"system:authenticated"}})
		if err != nil {
			return err
		}
		for _, warning := range slices.Concat(result.Mutation.Warnings, result.Validation.Warnings) {
			fmt.Println("warning:", warning)
		}
		if denial := result.Denial(); denial != nil {
			fmt.Println("denied:", denial.Message)
			return nil
		}
		fmt.Println("allowed")
		return nil
	})
	return group.Wait()
}

// An engine decides by the policies of a cluster, which it follows, and counts what it decides.
type engine struct {
	source   *cluster.Source
	facts    *factcluster.Resolver
	policies *live.Live
	decider  usher.Decider
}

func newEngine(client dynamic.Interface, mapper meta.RESTMapper, registry *prometheus.Registry) *engine {
	counts := metrics.New(registry)
	facts := factcluster.New(client, mapper, factcluster.Options{})
	policies := live.New(live.Options{
		Facts: counts.FactResolver(cached.New(facts, time.Second)), Log: slog.Default(), OnUpdate: counts.Snapshot,
	})
	return &engine{
		source: cluster.New(client, cluster.Options{Log: slog.Default()}), facts: facts,
		policies: policies, decider: counts.Wrap(policies, "embedded"),
	}
}

// run follows policies, and the objects that they read, until ctx is done.
func (e *engine) run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return e.policies.Run(ctx, e.source) })
	group.Go(func() error { return e.facts.Run(ctx) })
	return group.Wait()
}

// create decides whether the user may create the object, when the policies are loaded. Its error says what keeps
// them from being read.
func (e *engine) create(ctx context.Context, object *unstructured.Unstructured, user usher.User) (admission.Result, error) {
	loading, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	if err := e.policies.WaitLoaded(loading); err != nil {
		return admission.Result{}, err
	}
	resource, err := e.facts.Resource(ctx, object.GroupVersionKind())
	if err != nil {
		return admission.Result{}, err
	}
	return admission.Decide(ctx, e.decider, &usher.Request{
		Operation: usher.Create, Kind: object.GroupVersionKind(), Resource: resource,
		Namespace: object.GetNamespace(), Name: object.GetName(),
		Object: usher.TreeObject(object.Object), User: user,
	})
}

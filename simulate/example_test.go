package simulate_test

import (
	"context"
	"fmt"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/live"
	"github.com/usher-dev/usher/simulate"
	"github.com/usher-dev/usher/source/dir"
)

// A pod in a cluster without webhooks and policies.
func ExampleSimulator_Run() {
	ctx := context.Background()
	cluster, err := simulate.FromObjects(nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	s, err := simulate.New(ctx, cluster, simulate.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	trace, err := s.Run(ctx, simulate.Request{Operation: usher.Create, Object: map[string]any{
		"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "cart", "namespace": "default"},
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(trace.Resource, trace.Admitted)
	// Output: pods true
}

// A pod in a cluster in which Usher has the policies of a folder.
func ExampleRegistered() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	policies := live.New(live.Options{})
	go func() { _ = policies.Run(ctx, dir.New("testdata/usher")) }() // WaitLoaded returns its error
	if err := policies.WaitLoaded(ctx); err != nil {
		fmt.Println(err)
		return
	}
	trace, err := simulated(ctx, policies, nil, simulate.Request{Operation: usher.Create, Object: map[string]any{
		"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "cart", "namespace": "default"},
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(trace.Admitted, trace.Error.Message)
	// Output: false admission webhook "validate.usher.dev" denied the request: label team is required (ClusterObjectPolicy require-team)
}

func simulated(ctx context.Context, policies *live.Live, objects []map[string]any, request simulate.Request) (*simulate.Trace, error) {
	objects, err := simulate.Registered(objects, policies.WebhookConfigurations)
	if err != nil {
		return nil, err
	}
	cluster, err := simulate.FromObjects(objects)
	if err != nil {
		return nil, err
	}
	s, err := simulate.New(ctx, cluster, simulate.Options{Local: simulate.AnsweredBy(policies)})
	if err != nil {
		return nil, err
	}
	defer s.Close()
	return s.Run(ctx, request)
}

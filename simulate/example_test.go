package simulate_test

import (
	"context"
	"fmt"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/simulate"
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

package fact_test

import (
	"context"
	"fmt"

	"github.com/usher-dev/usher/fact"
)

// Objects come from one resolver, and nothing comes from HTTP services.
func ExampleResolvers() {
	objects := fact.ResolverFunc(func(_ context.Context, ref fact.Ref) (any, error) {
		return map[string]any{"metadata": map[string]any{"name": ref.(*fact.Object).Name}}, nil
	})
	facts := fact.Resolvers{fact.Objects: objects}

	namespace, err := facts.Resolve(context.Background(), &fact.Object{APIVersion: "v1", Kind: "Namespace", Name: "shop"})
	fmt.Println(namespace, err)
	// Output: map[metadata:map[name:shop]] <nil>
}

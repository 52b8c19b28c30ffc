package object_test

import (
	"context"
	"fmt"

	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/fact/object"
)

// Rules find the objects of a test in memory.
func ExampleFromTrees() {
	store := object.FromTrees([]map[string]any{object.Namespace("shop")})
	for _, name := range []string{"shop", "lab"} {
		_, err := store.Resolve(context.Background(), &fact.Object{APIVersion: "v1", Kind: "Namespace", Name: name})
		fmt.Println(err)
	}
	// Output:
	// <nil>
	// Namespace "lab" not found
}

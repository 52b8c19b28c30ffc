package cached_test

import (
	"context"
	"fmt"
	"time"

	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/fact/cached"
)

// A fact is fetched once a minute.
func ExampleNew() {
	fetched := 0
	slow := fact.ResolverFunc(func(context.Context, fact.Ref) (any, error) {
		fetched++
		return map[string]any{}, nil
	})
	facts := cached.New(slow, time.Minute)
	ref := &fact.Object{APIVersion: "v1", Kind: "Namespace", Name: "shop"}
	for range 3 {
		if _, err := facts.Resolve(context.Background(), ref); err != nil {
			fmt.Println(err)
		}
	}
	fmt.Println(fetched)
	// Output: 1
}

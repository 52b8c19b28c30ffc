package cluster_test

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/usher-dev/usher/fact/cluster"
)

// Objects of a cluster are facts while Run runs.
func ExampleNew() {
	client, err := dynamic.NewForConfig(&rest.Config{Host: "https://cluster.invalid"})
	if err != nil {
		fmt.Println(err)
		return
	}
	facts := cluster.New(client, meta.NewDefaultRESTMapper(nil), cluster.Options{})
	ctx, stop := context.WithCancel(context.Background())
	stop()
	fmt.Println(facts.Run(ctx), len(facts.Watched()))
	// Output: <nil> 0
}

package cluster_test

import (
	"context"
	"fmt"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/usher-dev/usher/source"
	clustersource "github.com/usher-dev/usher/source/cluster"
)

// The policies of a cluster, followed until the context is done.
func ExampleNew() {
	client, err := dynamic.NewForConfig(&rest.Config{Host: "https://cluster.invalid"})
	if err != nil {
		fmt.Println(err)
		return
	}
	policies := clustersource.New(client, clustersource.Options{})
	ctx, stop := context.WithCancel(context.Background())
	stop()
	fmt.Println(policies.Run(ctx, func(source.Set) {}))
	// Output: <nil>
}

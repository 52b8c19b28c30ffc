package e2e

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

var restless = flag.Duration("restless", 10*time.Second, "how long a tenant creates and deletes policies beside honest ones")

// TestStatusBesideARestlessTenant has a tenant create and delete policies of the same names as fast as 50 a
// second, with two replicas. The status of honest policies says nevertheless that they are enforced.
func TestStatusBesideARestlessTenant(t *testing.T) {
	t.Parallel()
	r, _, _, _ := replicas(t)
	theirs, honest := r.Namespace(t), r.Namespace(t)
	config := rest.CopyConfig(r.RESTConfig)
	config.QPS = -1
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var writers sync.WaitGroup
	var written atomic.Int64
	defer writers.Wait()
	defer stop()
	policies := client.Resource(grants.GroupVersion().WithResource("objectpolicies")).Namespace(theirs)
	for writer := range 4 {
		writers.Go(func() {
			turn := time.NewTicker(4 * 20 * time.Millisecond)
			defer turn.Stop()
			for i := 0; ctx.Err() == nil; i++ {
				name := fmt.Sprintf("restless-%d-%d", writer, i%15)
				_ = policies.Delete(ctx, name, metav1.DeleteOptions{})
				if _, err := policies.Create(ctx, refusing(t, theirs, name), metav1.CreateOptions{}); err == nil {
					written.Add(1)
				}
				<-turn.C
			}
		})
	}
	eventually(t, "the tenant to write", func() error {
		if n := written.Load(); n < 30 {
			return fmt.Errorf("%d policies were written", n)
		}
		return nil
	})
	var took []time.Duration
	for began := time.Now(); len(took) < 3 || time.Since(began) < *restless; {
		policy, err := r.apply(testContext(t), refusing(t, honest, fmt.Sprintf("honest-%d", len(took))))
		if err != nil {
			t.Fatal(err)
		}
		wrote := time.Now()
		r.awaitCondition(t, policy, "Enforced", "True")
		took = append(took, time.Since(wrote))
	}
	slices.Sort(took)
	t.Logf("%d honest policies are known to be enforced after %v, at most %v, beside %d of a tenant", len(took), took[len(took)/2], took[len(took)-1], written.Load())
}

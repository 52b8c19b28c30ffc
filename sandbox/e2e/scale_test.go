package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/usher-dev/usher/sandbox"
)

const manyPolicies = 10_000

// TestManyPolicies starts Usher in a cluster with ten thousand policies, and records what
// that costs.
func TestManyPolicies(t *testing.T) {
	t.Parallel()
	r := newRig(t, sandbox.Options{Exclusive: true})
	namespace := r.Namespace(t)
	began := time.Now()
	var writers errgroup.Group
	writers.SetLimit(16)
	for i := range manyPolicies {
		writers.Go(func() error {
			policy := labelling(t, fmt.Sprintf("many-%05d", i), fmt.Sprintf("team-%05d", i), "many")
			if i == manyPolicies-1 {
				policy = labelling(t, "last", namespace, "last")
			}
			resource, err := r.of(policy)
			if err != nil {
				return err
			}
			_, err = resource.Create(context.Background(), policy, metav1.CreateOptions{})
			return err
		})
	}
	if err := writers.Wait(); err != nil {
		t.Fatalf("create policies: %v", err)
	}
	t.Logf("%d policies created in %v", manyPolicies, time.Since(began))

	began = time.Now()
	process := r.serve(t)
	t.Logf("ready and registered after %v", time.Since(began))
	r.acting(t, namespace, "last")
	started := time.Since(began)
	t.Logf("the last policy acts after %v", started)
	t.Logf("resident memory %.0f MiB, heap %.0f MiB",
		metric(t, process, "process_resident_memory_bytes")/(1<<20), metric(t, process, "go_memstats_heap_inuse_bytes")/(1<<20))

	if _, err := r.apply(testContext(t), labelling(t, "last", namespace, "edited")); err != nil {
		t.Fatal(err)
	}
	took := r.acting(t, namespace, "edited")
	t.Logf("an edit acts after %v", took)
	if took > started {
		t.Errorf("with %d policies an edit took %v, longer than to start", manyPolicies, took)
	}
}

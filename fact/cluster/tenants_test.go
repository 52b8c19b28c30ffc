package cluster_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/fact/cluster"
)

// TestTenantsReadAtTheirRate: objects choose the names that policies read. What those of a namespace read from the
// API server delays nobody else.
func TestTenantsReadAtTheirRate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := cluster.New(newClient(), newMapper(configMap), cluster.Options{})
		read := func(tenant string, ref *fact.Object) error {
			ctx, cancel := context.WithTimeout(fact.ForTenant(t.Context(), tenant), time.Second)
			defer cancel()
			if _, err := r.Resolve(ctx, ref); err != nil && !strings.Contains(err.Error(), "not found") {
				return err
			}
			return nil
		}
		refused, begin := 0, time.Now()
		for i := range 100 {
			if err := read("shop", named("ConfigMap", "shop", fmt.Sprint(i))); err != nil {
				if !strings.Contains(err.Error(), "policies of namespace shop read more than 10 objects a second that are not in memory") {
					t.Fatal(err)
				}
				refused++
			}
		}
		if took := time.Since(begin); refused > 0 || took != 8*time.Second {
			t.Errorf("100 objects one after the other took %v, %d were refused; 20 at once and then 10 a second are expected", took, refused)
		}
		errs := make(chan error)
		for range 100 {
			go func() { errs <- read("shop", selected("ConfigMap", "shop")) }()
		}
		synctest.Wait()
		for _, other := range []string{"", "bank"} {
			begin := time.Now()
			if err := read(other, named("ConfigMap", "shop", "a")); err != nil || time.Since(begin) > 0 {
				t.Errorf("for policies of namespace %q: %v after %v", other, err, time.Since(begin))
			}
		}
		for range 100 {
			if err := <-errs; err != nil {
				refused++
			}
		}
		if refused < 90 {
			t.Errorf("of 100 lists at once %d were refused", refused)
		}
	})
}

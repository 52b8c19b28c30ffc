package cluster

import (
	"context"
	"fmt"
	"sync"

	"golang.org/x/time/rate"

	"github.com/usher-dev/usher/fact"
)

const (
	// tenantReads is how much is read from the API server in a second for the policies of one namespace, and
	// tenantBurst at once. A page of a list counts more than an object; what is in memory does not count.
	tenantReads, tenantBurst = 10, 20
	objectReads, listReads   = 1, 2
	// manyTenants is the number of namespaces from which on those that read nothing are forgotten.
	manyTenants = 1000
)

// tenants limits what is read for policies of namespaces: objects choose the names that policies read, so that each
// request may read another object.
type tenants struct {
	mu       sync.Mutex
	limiters map[string]*rate.Limiter
}

// wait waits until the policy that asks may read. The error is that of its limit if that takes longer than ctx lasts.
func (t *tenants) wait(ctx context.Context, reads int) error {
	namespace := fact.Tenant(ctx)
	if namespace == "" {
		return nil
	}
	if err := t.of(namespace).WaitN(ctx, reads); err != nil {
		return fmt.Errorf("policies of namespace %s read more than %d objects a second that are not in memory: %w", namespace, tenantReads, err)
	}
	return nil
}

func (t *tenants) of(namespace string) *rate.Limiter {
	t.mu.Lock()
	defer t.mu.Unlock()
	if known := t.limiters[namespace]; known != nil {
		return known
	}
	if len(t.limiters) >= manyTenants {
		for other, limiter := range t.limiters {
			if limiter.Tokens() >= tenantBurst {
				delete(t.limiters, other)
			}
		}
	}
	if t.limiters == nil {
		t.limiters = map[string]*rate.Limiter{}
	}
	t.limiters[namespace] = rate.NewLimiter(tenantReads, tenantBurst)
	return t.limiters[namespace]
}

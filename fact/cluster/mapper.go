package cluster

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/usher-dev/usher/fact"
)

// rediscover is how much time passes between two attempts to find out about kinds that
// have come since: discovery is expensive, and a policy may name a kind that never comes.
const rediscover = 10 * time.Second

// A mapping is the resource of a kind.
type mapping struct {
	kind       schema.GroupVersionKind
	resource   schema.GroupVersionResource
	namespaced bool
}

// misplaced reports whether a list of objects is for a namespace that the kind cannot have, or for
// none although it needs one.
func (m *mapping) misplaced(namespace string, needed bool) bool {
	if m.namespaced {
		return namespace == "" && needed
	}
	return namespace != ""
}

// A mapper finds mappings, within a context and once for concurrent callers.
type mapper struct {
	rest   meta.RESTMapper
	flight singleflight.Group

	mu    sync.Mutex
	known map[schema.GroupVersionKind]mapping
	reset time.Time
}

func newMapper(rest meta.RESTMapper) *mapper {
	return &mapper{rest: rest, known: map[schema.GroupVersionKind]mapping{}}
}

// placed returns the namespace in which an object is looked for.
func (m *mapping) placed(o *fact.Object) string {
	if !m.namespaced && o.AnyScope {
		return ""
	}
	return o.Namespace
}

// recall returns the mapping of a kind if it has been found before.
func (m *mapper) recall(kind schema.GroupVersionKind) (mapping, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	known, ok := m.known[kind]
	return known, ok
}

// find returns the mapping of a kind. If the cluster has no such kind, meta.IsNoMatchError
// is true of the error.
func (m *mapper) find(ctx context.Context, kind schema.GroupVersionKind) (mapping, error) {
	if known, ok := m.recall(kind); ok {
		return known, nil
	}
	found := m.flight.DoChan(kind.String(), func() (any, error) { return m.discover(kind) })
	select {
	case result := <-found:
		known, _ := result.Val.(mapping)
		return known, result.Err
	case <-ctx.Done():
		return mapping{}, fmt.Errorf("wait for discovery: %w", ctx.Err())
	}
}

func (m *mapper) discover(kind schema.GroupVersionKind) (mapping, error) {
	found, err := m.rest.RESTMapping(kind.GroupKind(), kind.Version)
	if meta.IsNoMatchError(err) && m.mayReset() {
		meta.MaybeResetRESTMapper(m.rest)
		found, err = m.rest.RESTMapping(kind.GroupKind(), kind.Version)
	}
	if err != nil {
		return mapping{}, err
	}
	known := mapping{kind: kind, resource: found.Resource, namespaced: found.Scope.Name() == meta.RESTScopeNameNamespace}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.known[kind] = known
	return known, nil
}

func (m *mapper) mayReset() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.reset.IsZero() && time.Since(m.reset) < rediscover {
		return false
	}
	m.reset = time.Now()
	return true
}

// forget drops the mapping of a kind that the API server no longer has.
func (m *mapper) forget(kind schema.GroupVersionKind) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.known, kind)
}

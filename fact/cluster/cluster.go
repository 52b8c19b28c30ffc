// Package cluster gets objects from the API server of a cluster.
//
// The first object of a kind is read from the API server. From then on the kind is watched, and its
// objects come from memory, until none is needed for a while. So policies need not declare kinds,
// and neither start-up nor a request waits for a watch: until it runs, and if it cannot run,
// objects are read one by one.
//
// Secrets are always read one by one, and never kept.
package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/usher-dev/usher/fact"
)

// Options configure a [Resolver]. The zero value works.
type Options struct {
	// MaxKinds is how many kinds are watched at once; 0 means 32. Above the limit, the least
	// recently used kinds are no longer watched.
	MaxKinds int
	// MaxObjects is how many objects a kind may have to be watched; 0 means 20000. Watching
	// costs memory for all of them.
	MaxObjects int
	// Idle is after how long without a question a kind is no longer watched; 0 means 15 minutes.
	Idle time.Duration
	// REST, unless nil, reads long lists as bytes, which takes less memory than decoding them.
	REST rest.Interface
	// Log receives a record when the watch of a kind starts, stops or fails.
	Log *slog.Logger
}

// A Resolver gets objects of a cluster. Use [New].
type Resolver struct {
	reader

	options Options
	// wanted are kinds that were used and are not watched.
	wanted chan schema.GroupVersionKind
	// rewatch is signalled by Watch.
	rewatch chan struct{}

	mu     sync.RWMutex
	pinned map[schema.GroupVersionKind]bool
	kinds  map[schema.GroupVersionKind]*kind
	// follower is nil if nobody follows changes.
	follower Follower
}

var _ fact.Resolver = (*Resolver)(nil)

// New returns a resolver of the objects that client reads. Without [Resolver.Run] it watches
// nothing. It does not cache objects that it reads one by one: wrap it with
// [github.com/usher-dev/usher/fact/cached] for that.
func New(client dynamic.Interface, rest meta.RESTMapper, o Options) *Resolver {
	if o.MaxKinds <= 0 {
		o.MaxKinds = 32
	}
	if o.MaxObjects <= 0 {
		o.MaxObjects = 20_000
	}
	if o.Idle <= 0 {
		o.Idle = 15 * time.Minute
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Resolver{
		reader:  reader{client: client, mapper: newMapper(rest), rest: o.REST},
		options: o,
		wanted:  make(chan schema.GroupVersionKind, 64),
		rewatch: make(chan struct{}, 1),
		kinds:   map[schema.GroupVersionKind]*kind{},
	}
}

// Resolve finds the object that ref names or selects.
//
// An object that is not in memory by name is read from the API server before it is reported as
// missing, since a watch always lags: the owner of an object is often only a moment older. A
// selector relies on memory. Memory is not used while its watch is interrupted.
func (r *Resolver) Resolve(ctx context.Context, ref fact.Ref) (any, error) {
	o, ok := ref.(*fact.Object)
	if !ok {
		return nil, fmt.Errorf("resolve %s: it is not an object", ref)
	}
	if o.Name == "" && o.Selector == nil {
		return nil, nil
	}
	m, err := r.mapper.find(ctx, schema.FromAPIVersionAndKind(o.APIVersion, o.Kind))
	if err != nil {
		return nil, unmapped(o, err)
	}
	if value, known, err := r.remembered(m, o); known {
		return value, err
	}
	namespace := m.placed(o)
	if o.Name != "" {
		return r.named(ctx, m, o, namespace)
	}
	if o.All && m.misplaced(namespace, o.AnyScope) {
		return nil, fmt.Errorf("get %s: %w", o, &fact.WrongScope{Namespaced: m.namespaced})
	}
	if o.Sample != nil {
		return r.sample(ctx, m, o, namespace)
	}
	switch {
	case !m.namespaced && namespace != "":
		return nil, nil
	case o.All:
		return r.selectAll(ctx, m, o, namespace)
	}
	return r.selectOne(ctx, m, o, namespace)
}

// Current returns what [Resolver.Resolve] does if that comes from memory, which a watch keeps current;
// otherwise it is false. It waits for nobody.
func (r *Resolver) Current(ref fact.Ref) (value any, known bool, err error) {
	o, ok := ref.(*fact.Object)
	if !ok {
		return nil, false, nil
	}
	m, ok := r.mapper.recall(schema.FromAPIVersionAndKind(o.APIVersion, o.Kind))
	if !ok {
		return nil, false, nil
	}
	return r.remembered(m, o)
}

// remembered returns what is in memory; it is false of an object that is not there by name, since a watch
// lags, and of what is an error.
func (r *Resolver) remembered(m mapping, o *fact.Object) (found any, known bool, err error) {
	namespace := m.placed(o)
	if o.Live || o.Sample != nil || o.Name == "" && o.Selector == nil || o.Name == "" && o.All && m.misplaced(namespace, o.AnyScope) ||
		(o.Name != "" || namespace != "") && m.namespaced != (namespace != "") {
		return nil, false, nil
	}
	memory := r.memory(m.kind)
	switch {
	case memory == nil:
		return nil, false, nil
	case o.Name != "":
		tree := memory.named(namespace, o.Name)
		return value(tree), tree != nil, nil
	case o.All:
		found, err = memory.all(namespace, o.Selector)
		return found, true, err
	}
	return value(memory.first(namespace, o.Selector)), true, nil
}

// Resource returns the resource under which objects of a kind are. If the cluster has no such
// kind, meta.IsNoMatchError is true of the error.
func (r *Resolver) Resource(ctx context.Context, kind schema.GroupVersionKind) (schema.GroupVersionResource, error) {
	m, err := r.mapper.find(ctx, kind)
	return m.resource, err
}

func (r *Resolver) named(ctx context.Context, m mapping, o *fact.Object, namespace string) (any, error) {
	switch {
	case m.namespaced && namespace == "":
		return nil, fmt.Errorf("%w: %w", absent(o, namespace), &fact.WrongScope{Namespaced: true})
	case !m.namespaced && namespace != "":
		return nil, fmt.Errorf("%w: %w", absent(o, namespace), &fact.WrongScope{Namespaced: false})
	}
	return r.get(ctx, m, o, namespace)
}

// value keeps an absent object from becoming a non-nil interface.
func value(tree map[string]any) any {
	if tree == nil {
		return nil
	}
	return tree
}

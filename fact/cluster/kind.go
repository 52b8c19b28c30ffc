package cluster

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/usher-dev/usher/internal/reflector"
)

const (
	// again is how long a kind is left alone that could not be watched.
	again = time.Minute
	// shrink is how long a kind is left alone that has too many objects.
	shrink = 10 * time.Minute
)

// A kind is a kind that is watched, or should be.
type kind struct {
	gvk     schema.GroupVersionKind
	options Options
	// changed is called with the namespace and the name of each object that changes.
	changed func(namespace, name string)
	// cancel ends run.
	cancel context.CancelFunc
	// asked is when an object was last needed, in nanoseconds.
	asked atomic.Int64

	mu sync.Mutex
	// reflector is nil while objects are not watched, for the reason err.
	reflector *reflector.Reflector
	err       error
	objects   *objects
}

func newKind(gvk schema.GroupVersionKind, o Options, changed func(namespace, name string), cancel context.CancelFunc) *kind {
	k := &kind{gvk: gvk, options: o, changed: changed, cancel: cancel}
	k.touch()
	return k
}

func (k *kind) touch() { k.asked.Store(time.Now().UnixNano()) }

func (k *kind) idle() time.Duration { return time.Since(time.Unix(0, k.asked.Load())) }

// memory returns all objects, or nil if they are not known or not up to date.
func (k *kind) memory() *objects {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.reflector == nil || !k.reflector.State().Current {
		return nil
	}
	return k.objects
}

func (k *kind) status() Watched {
	k.mu.Lock()
	defer k.mu.Unlock()
	w := Watched{Kind: k.gvk, Err: k.err}
	if k.reflector != nil {
		state := k.reflector.State()
		w.Objects, w.Current, w.Err = k.objects.len(), state.Current, state.Err
	}
	return w
}

// run watches the kind until ctx is done.
func (k *kind) run(ctx context.Context, client dynamic.Interface, mapper *mapper) {
	said := ""
	for {
		pause := again
		m, err := mapper.find(ctx, k.gvk)
		if err == nil {
			err = k.watch(ctx, client, m.resource)
			pause = shrink
		}
		if ctx.Err() != nil {
			return
		}
		if err.Error() != said {
			said = err.Error()
			k.options.Log.Warn("kind cannot be watched", "kind", k.gvk.String(), "error", said)
		}
		k.set(nil, nil, err)
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// watch copies the kind until ctx is done or there are too many objects.
func (k *kind) watch(ctx context.Context, client dynamic.Interface, resource schema.GroupVersionResource) error {
	if number(ctx, client.Resource(resource)) > int64(k.options.MaxObjects) {
		return errTooMany(k.options.MaxObjects)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	all := &objects{most: k.options.MaxObjects, overflow: cancel, changed: k.changed, namespaces: map[string]map[string]map[string]any{}}
	copied := reflector.New(client, resource, all, reflector.Options{Retry: again, Log: k.options.Log})
	k.set(copied, all, nil)
	k.options.Log.Info("kind is watched from now on", "kind", k.gvk.String())
	copied.Run(ctx)
	return errTooMany(k.options.MaxObjects)
}

func (k *kind) set(m *reflector.Reflector, all *objects, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.reflector, k.objects, k.err = m, all, err
}

// number is about how many objects there are, 0 if that cannot be found out.
func number(ctx context.Context, resource dynamic.ResourceInterface) int64 {
	list, err := resource.List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return 0
	}
	n := int64(len(list.Items))
	if remaining := list.GetRemainingItemCount(); remaining != nil {
		n += *remaining
	}
	return n
}

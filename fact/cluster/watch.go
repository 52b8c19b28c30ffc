package cluster

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A Watched says how a kind that is watched, or should be, is doing.
type Watched struct {
	Kind schema.GroupVersionKind
	// Objects is how many there are in memory.
	Objects int
	// Current says that they are all, and up to date. Otherwise objects of the kind are
	// read one by one.
	Current bool
	// Err is why the kind cannot be watched, if there is a reason. It is tried again.
	Err error
}

// Watch says which kinds to watch from the start and for good, in place of those of the
// last call. Others are watched when they are asked for. Kinds that do not exist are
// watched when they come.
func (r *Resolver) Watch(kinds []schema.GroupVersionKind) {
	pinned := make(map[schema.GroupVersionKind]bool, len(kinds))
	for _, k := range kinds {
		if watchable(k) {
			pinned[k] = true
		}
	}
	r.mu.Lock()
	r.pinned = pinned
	r.mu.Unlock()
	select {
	case r.rewatch <- struct{}{}:
	default:
	}
}

// watchable reports whether objects of the kind may be kept in memory.
func watchable(k schema.GroupVersionKind) bool { return k.Group != "" || k.Kind != "Secret" }

// Watched returns the kinds that are watched, or should be, sorted.
func (r *Resolver) Watched() []Watched {
	r.mu.RLock()
	all := slices.Collect(maps.Values(r.kinds))
	r.mu.RUnlock()
	watched := make([]Watched, 0, len(all))
	for _, k := range all {
		watched = append(watched, k.status())
	}
	slices.SortFunc(watched, func(a, b Watched) int { return cmp.Compare(a.Kind.String(), b.Kind.String()) })
	return watched
}

// memory returns all objects of a kind, or nil if they are not known or not up to date. A
// kind that is not watched will be.
func (r *Resolver) memory(gvk schema.GroupVersionKind) *objects {
	if !watchable(gvk) {
		return nil
	}
	r.mu.RLock()
	k := r.kinds[gvk]
	r.mu.RUnlock()
	if k == nil {
		select {
		case r.wanted <- gvk:
		default: // It will be asked for again.
		}
		return nil
	}
	k.touch()
	return k.memory()
}

// Run watches kinds until ctx is done, when it returns nil. Call it once.
func (r *Resolver) Run(ctx context.Context) error {
	var running sync.WaitGroup
	defer running.Wait()
	defer r.stopAll()
	ticker := time.NewTicker(max(r.options.Idle/4, time.Second))
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case gvk := <-r.wanted:
			r.start(ctx, &running, gvk)
		case <-r.rewatch:
			for _, gvk := range r.toPin() {
				r.start(ctx, &running, gvk)
			}
		case <-ticker.C:
			r.stopIdle()
		}
	}
}

func (r *Resolver) toPin() []schema.GroupVersionKind {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.Collect(maps.Keys(r.pinned))
}

// start watches a kind, unless it is already watched or too many are.
func (r *Resolver) start(ctx context.Context, running *sync.WaitGroup, gvk schema.GroupVersionKind) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.kinds[gvk] != nil || !r.pinned[gvk] && len(r.kinds) >= r.options.MaxKinds && !r.dropLeastUsed() {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	k := newKind(gvk, r.options, func(namespace, name string) { r.tell(gvk, namespace, name) }, cancel)
	r.kinds[gvk] = k
	running.Go(func() { k.run(ctx, r.client, r.mapper) })
}

// dropLeastUsed stops the kind that nobody has asked for for longest, if that is at least a
// minute: kinds must not drive each other out all the time. The caller holds the lock.
func (r *Resolver) dropLeastUsed() bool {
	var oldest *kind
	for gvk, k := range r.kinds {
		if !r.pinned[gvk] && (oldest == nil || k.idle() > oldest.idle()) {
			oldest = k
		}
	}
	if oldest == nil || oldest.idle() < time.Minute {
		return false
	}
	r.stop(oldest)
	return true
}

func (r *Resolver) stopIdle() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for gvk, k := range r.kinds {
		if !r.pinned[gvk] && r.follower == nil && k.idle() >= r.options.Idle {
			r.stop(k)
		}
	}
}

func (r *Resolver) stopAll() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, k := range r.kinds {
		r.stop(k)
	}
}

// stop forgets a kind and its objects. The caller holds the lock.
func (r *Resolver) stop(k *kind) {
	k.cancel()
	delete(r.kinds, k.gvk)
	r.options.Log.Info("kind is no longer watched", "kind", k.gvk.String())
}

// errTooMany is why a kind is not watched that has too many objects.
func errTooMany(most int) error {
	return fmt.Errorf("watch objects: there are more than %d of them: each is read when it is needed", most)
}

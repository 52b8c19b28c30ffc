package cluster

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A Follower is called after an object of a kind that is watched has changed: [Resolver.Resolve]
// returns the new one already. Without a name all objects of the kind may have. It must not block.
type Follower func(of schema.GroupVersionKind, namespace, name string)

// Follow calls f for each change from now on, in place of an earlier follower, until ctx is done.
// For as long, kinds stay watched although nobody asks for their objects.
func (r *Resolver) Follow(ctx context.Context, f Follower) {
	r.follow(f)
	defer r.follow(nil)
	<-ctx.Done()
}

func (r *Resolver) follow(f Follower) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.follower = f
}

func (r *Resolver) tell(of schema.GroupVersionKind, namespace, name string) {
	r.mu.RLock()
	f := r.follower
	r.mu.RUnlock()
	if f != nil {
		f(of, namespace, name)
	}
}

// poll is the interval at which Await looks.
const poll = 20 * time.Millisecond

// Await starts to watch a kind and returns when its objects are in memory, when it turns out that
// they cannot be, or when ctx is done.
func (r *Resolver) Await(ctx context.Context, of schema.GroupVersionKind) {
	for watchable(of) && r.memory(of) == nil {
		r.mu.RLock()
		k := r.kinds[of]
		r.mu.RUnlock()
		if k != nil && k.status().Err != nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(poll):
		}
	}
}

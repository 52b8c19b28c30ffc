package auditing

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/usher-dev/usher/fact"
	clusterfact "github.com/usher-dev/usher/fact/cluster"
	"github.com/usher-dev/usher/internal/deadline"
)

// awaitTime is how long an audit waits until a kind of facts is watched, once: the objects that need
// them can be many.
const awaitTime = 5 * time.Second

// awaited resolves as next does, but lets the watch of a kind begin first.
type awaited struct {
	next fact.Resolver
	from *clusterfact.Resolver

	mu sync.Mutex
	// until is how long kinds that were needed may be awaited.
	until map[schema.GroupVersionKind]time.Time
}

func newAwaited(next fact.Resolver, from *clusterfact.Resolver) *awaited {
	return &awaited{next: fact.Remembered(next), from: from, until: map[schema.GroupVersionKind]time.Time{}}
}

// Resolve implements [fact.Resolver].
func (r *awaited) Resolve(ctx context.Context, ref fact.Ref) (any, error) {
	if o, ok := ref.(*fact.Object); ok {
		r.await(ctx, schema.FromAPIVersionAndKind(o.APIVersion, o.Kind))
	}
	return r.next.Resolve(ctx, ref)
}

func (r *awaited) await(ctx context.Context, of schema.GroupVersionKind) {
	r.mu.Lock()
	until, known := r.until[of]
	if !known {
		until = time.Now().Add(awaitTime)
		r.until[of] = until
	}
	r.mu.Unlock()
	if time.Now().Before(until) {
		ctx, cancel := context.WithDeadline(ctx, until)
		defer cancel()
		r.from.Await(ctx, of)
	}
}

// unwatched is how often facts are taken to have changed whose changes nobody tells.
const unwatched = 10 * time.Minute

// A factName names an object that is a fact, or all of a kind.
type factName struct {
	kind            schema.GroupVersionKind
	namespace, name string
}

// factChanges passes on changes of facts, once and later, when no cache has the old ones.
type factChanges struct {
	delay time.Duration
	tell  func(of schema.GroupVersionKind, namespace, name string)

	mu      sync.Mutex
	pending map[factName]bool
	wake    chan struct{}
}

func newFactChanges(delay time.Duration, tell func(of schema.GroupVersionKind, namespace, name string)) *factChanges {
	return &factChanges{delay: delay, tell: tell, pending: map[factName]bool{}, wake: make(chan struct{}, 1)}
}

// add notes a change.
func (c *factChanges) add(of schema.GroupVersionKind, namespace, name string) {
	c.mu.Lock()
	c.pending[factName{of, namespace, name}] = true
	c.mu.Unlock()
	signal(c.wake)
}

func (c *factChanges) take() map[factName]bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	pending := c.pending
	c.pending = map[factName]bool{}
	return pending
}

// run passes on changes until ctx is done.
func (c *factChanges) run(ctx context.Context, from *clusterfact.Resolver) {
	ticker := time.NewTicker(unwatched)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			c.addUnwatched(from)
			continue
		case <-c.wake:
		}
		// What is noted from here on may be passed on too early, and has woken the next round.
		changed := c.take()
		if !deadline.Sleep(ctx, c.delay) {
			return
		}
		for n := range changed {
			c.tell(n.kind, n.namespace, n.name)
		}
	}
}

// addUnwatched adds the kinds of facts that are read one by one.
func (c *factChanges) addUnwatched(from *clusterfact.Resolver) {
	c.add(schema.GroupVersionKind{Version: "v1", Kind: "Secret"}, "", "")
	for _, kind := range from.Watched() {
		if kind.Err != nil {
			c.add(kind.Kind, "", "")
		}
	}
}

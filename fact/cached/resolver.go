// Package cached caches facts, so that a busy cluster does not fetch the same fact for every
// request.
package cached

import (
	"container/list"
	"context"
	"crypto/sha256"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/usher-dev/usher/fact"
)

const (
	// fetchTimeout limits a fetch. A fetch does not end with the request that started it: others
	// wait for it, too.
	fetchTimeout = 10 * time.Second
	// errorTTL is how long, at most, the failure of an HTTP request is cached: long enough to
	// protect a service that is down, and too short to matter when it is up again.
	errorTTL = time.Second
	// namespaceTTL is how long, at most, a namespace is cached that is not kept current, such as while its watch
	// is interrupted: its labels decide which policies are for the objects in it.
	namespaceTTL = time.Second
	// maxEntries and maxWeight limit the cache, in facts and in bytes.
	maxEntries = 4096
	maxWeight  = 64 << 20
)

// A Watcher keeps some facts current. It is safe for concurrent use, and waits for nobody.
type Watcher interface {
	// Current returns a fact as it is now; it is false of a fact that is not kept current.
	Current(ref fact.Ref) (value any, known bool, err error)
}

// A Resolver caches the facts of another one.
//
// What the other one keeps current, as a [Watcher], is returned as it is. Of the other facts
// it caches objects, responses to GET requests, and that a selector selects no object; namespaces
// for at most a second. It does not cache errors, except those of HTTP requests, for at most a
// second. Concurrent requests for the same fact share a fetch. Requests with other methods are
// neither cached nor shared.
type Resolver struct {
	next fact.Resolver
	// watcher is nil if next keeps nothing current.
	watcher Watcher
	ttl     time.Duration
	flight  singleflight.Group

	mu     sync.Mutex
	known  map[key]*list.Element // of *entry
	recent *list.List            // the most recently used first
	weight int
}

// A key is the digest of a ref's key, which holds credentials.
type key [sha256.Size]byte

type entry struct {
	key     key
	value   any
	err     error
	expires time.Time
	weight  int
}

var _ fact.Resolver = (*Resolver)(nil)

// New returns a Resolver that caches the facts of next for ttl. If ttl is 0 it caches nothing, and
// concurrent requests for the same fact still share a fetch.
func New(next fact.Resolver, ttl time.Duration) *Resolver {
	watcher, _ := next.(Watcher)
	return &Resolver{next: next, watcher: watcher, ttl: ttl, known: map[key]*list.Element{}, recent: list.New()}
}

// Resolve returns the fact from memory, or fetches it.
func (r *Resolver) Resolve(ctx context.Context, ref fact.Ref) (any, error) {
	if !shareable(ref) {
		return r.next.Resolve(ctx, ref)
	}
	if r.watcher != nil {
		if value, known, err := r.watcher.Current(ref); known {
			return value, err
		}
	}
	k := key(sha256.Sum256([]byte(ref.Key())))
	if e, ok := r.recall(k); ok {
		return e.value, e.err
	}
	// Who asks for a namespace may have to wait for its limit: no one else does.
	fetched := r.flight.DoChan(string(k[:])+fact.Tenant(ctx), func() (any, error) {
		if e, ok := r.recall(k); ok {
			return e.value, e.err // somebody was faster
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), fetchTimeout)
		defer cancel()
		value, err := r.fetch(ctx, ref)
		r.remember(k, ref, value, err)
		return value, err
	})
	select {
	case result := <-fetched:
		return result.Val, result.Err
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for answer: %w", ctx.Err())
	}
}

// shareable reports whether two requests may get the same answer. Samples are large, and end with the
// request; what is read live is to be as new as the request.
func shareable(ref fact.Ref) bool {
	o, isObject := ref.(*fact.Object)
	return ref.Safe() && (!isObject || o.Sample == nil && !o.Live)
}

// fetch turns a panic into an error: it would end the process, since no caller can recover it.
func (r *Resolver) fetch(ctx context.Context, ref fact.Ref) (value any, err error) {
	defer func() {
		if p := recover(); p != nil {
			value, err = nil, fmt.Errorf("resolve fact: panic: %v", p)
		}
	}()
	return r.next.Resolve(ctx, ref)
}

func (r *Resolver) recall(k key) (*entry, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	element, ok := r.known[k]
	if !ok {
		return nil, false
	}
	e, _ := element.Value.(*entry)
	if !time.Now().Before(e.expires) {
		r.forget(element)
		return nil, false
	}
	r.recent.MoveToFront(element)
	return e, true
}

func (r *Resolver) remember(k key, ref fact.Ref, value any, err error) {
	ttl := r.ttl
	if err != nil {
		if ref.Sort() != fact.Requests {
			return
		}
		ttl = min(ttl, errorTTL)
	}
	if o, ok := ref.(*fact.Object); ok && o.APIVersion == "v1" && o.Kind == "Namespace" {
		ttl = min(ttl, namespaceTTL)
	}
	weight := weigh(value)
	if ttl <= 0 || weight > maxWeight/8 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if element, ok := r.known[k]; ok {
		r.forget(element)
	}
	r.known[k] = r.recent.PushFront(&entry{key: k, value: value, err: err, expires: time.Now().Add(ttl), weight: weight})
	r.weight += weight
	for r.recent.Len() > maxEntries || r.weight > maxWeight {
		r.forget(r.recent.Back())
	}
}

// forget removes an entry. The caller holds the lock.
func (r *Resolver) forget(element *list.Element) {
	e, _ := r.recent.Remove(element).(*entry)
	delete(r.known, e.key)
	r.weight -= e.weight
}

// weigh estimates the memory of a value, in bytes.
func weigh(value any) int {
	const each = 64
	weight := each
	switch v := value.(type) {
	case string:
		weight += len(v)
	case []any:
		for _, item := range v {
			weight += weigh(item)
		}
	case map[string]any:
		for name, item := range v {
			weight += len(name) + weigh(item)
		}
	}
	return weight
}

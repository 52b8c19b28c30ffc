package fact

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
)

// ErrDryRun is the error of a fact that is not requested in a dry run.
var ErrDryRun = errors.New("not requested in a dry run: only GET and HEAD have no side effects")

// A Resolver gets facts. It is safe for concurrent use and answers within ctx. Values
// are JSON trees (see usher.Object.Tree), shared: do not change them.
type Resolver interface {
	Resolve(ctx context.Context, ref Ref) (any, error)
}

// ResolverFunc is a function as a [Resolver].
type ResolverFunc func(ctx context.Context, ref Ref) (any, error)

// Resolve calls f.
func (f ResolverFunc) Resolve(ctx context.Context, ref Ref) (any, error) { return f(ctx, ref) }

// Missing is the error of a program that cannot go on without a fact.
type Missing struct {
	Ref Ref
}

func (m *Missing) Error() string { return "fact not known: " + m.Ref.String() }

// Known holds the facts resolved so far for one request, by [Ref.Key]. The zero value
// knows nothing. It is safe for concurrent use: a program that was given up may still read facts.
type Known struct {
	mu        sync.RWMutex
	results   map[string]result
	disclosed atomic.Bool
}

type result struct {
	value any
	err   error
}

// Value returns the fact, the error that resolving it gave, or [*Missing].
func (k *Known) Value(ref Ref) (any, error) {
	if k != nil {
		k.mu.RLock()
		r, ok := k.results[ref.Key()]
		k.mu.RUnlock()
		if ok {
			if r.err == nil && ref.Confidential() {
				k.disclosed.Store(true)
			}
			return r.value, r.err
		}
	}
	return nil, &Missing{Ref: ref}
}

// Disclosed reports whether a confidential fact has been read since it was called last.
func (k *Known) Disclosed() bool { return k.disclosed.Load() && k.disclosed.Swap(false) }

// Set records what resolving ref gave.
func (k *Known) Set(ref Ref, value any, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.results == nil {
		k.results = map[string]result{}
	}
	k.results[ref.Key()] = result{value: value, err: err}
}

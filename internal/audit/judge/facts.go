package judge

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/usher-dev/usher/fact"
)

var (
	errAccess  = errors.New("what the user may do is not known: the object has no request")
	errHTTP    = errors.New("this audit sends no HTTP requests")
	errUnknown = errors.New("nothing here resolves facts")
)

// A resolver resolves the facts of an audit, and records them in the usage of the context.
type resolver struct {
	facts fact.Resolver
	http  bool
}

// Resolve implements [fact.Resolver].
func (r resolver) Resolve(ctx context.Context, ref fact.Ref) (any, error) {
	switch {
	case ref.Sort() == fact.Questions:
		return nil, errAccess
	case ref.Sort() == fact.Requests && !r.http:
		return nil, errHTTP
	case r.facts == nil:
		return nil, errUnknown
	}
	if u, ok := ctx.Value(usageKey{}).(*usage); ok {
		u.add(ref)
	}
	return r.facts.Resolve(ctx, ref)
}

type usageKey struct{}

// A usage is the facts that were used for one object. It is safe for concurrent use: an evaluation that
// was given up may still ask for one.
type usage struct {
	mu   sync.Mutex
	refs []fact.Ref
}

func (u *usage) add(ref fact.Ref) {
	key := ref.Key()
	u.mu.Lock()
	defer u.mu.Unlock()
	if !slices.ContainsFunc(u.refs, func(known fact.Ref) bool { return known.Key() == key }) {
		u.refs = append(u.refs, ref)
	}
}

// all returns the facts.
func (u *usage) all() []fact.Ref {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Clone(u.refs)
}

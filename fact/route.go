package fact

import (
	"context"
	"errors"
)

// Remembered returns a Resolver that gets live objects as all others: for those who judge many objects, and
// again when facts change.
func Remembered(next Resolver) Resolver {
	return ResolverFunc(func(ctx context.Context, ref Ref) (any, error) {
		if o, ok := ref.(*Object); ok && o.Live {
			stored := *o
			stored.Live = false
			ref = &stored
		}
		return next.Resolve(ctx, ref)
	})
}

// Resolvers get facts, each those of a sort. Facts of other sorts are errors.
type Resolvers map[Sort]Resolver

// Resolve implements [Resolver].
func (r Resolvers) Resolve(ctx context.Context, ref Ref) (any, error) {
	if ref == nil {
		return nil, errors.New("resolve fact: the reference is empty")
	}
	if of := r[ref.Sort()]; of != nil {
		return of.Resolve(ctx, ref)
	}
	return nil, ref.Unresolved()
}

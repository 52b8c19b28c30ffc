package fact

import (
	"context"
	"fmt"
)

// Route returns a Resolver that gets objects from the one and HTTP answers from the
// other. Either may be nil: facts of that sort are then errors.
func Route(objects, http Resolver) Resolver {
	return ResolverFunc(func(ctx context.Context, ref Ref) (any, error) {
		switch {
		case ref.Object != nil && objects != nil:
			return objects.Resolve(ctx, ref)
		case ref.Object != nil:
			return nil, fmt.Errorf("get %s: objects of the cluster are not available here", ref)
		case ref.HTTP != nil && http != nil:
			return http.Resolve(ctx, ref)
		case ref.HTTP != nil:
			return nil, fmt.Errorf("%s: HTTP requests are not possible here", ref)
		case ref.Access != nil:
			return nil, fmt.Errorf("ask %s: nobody answers questions of access here", ref)
		}
		return nil, fmt.Errorf("resolve fact: the reference is empty")
	})
}

// WithAccess returns a Resolver that has questions of access answered by the one and gets other
// facts from the other.
func WithAccess(access, others Resolver) Resolver {
	return ResolverFunc(func(ctx context.Context, ref Ref) (any, error) {
		if ref.Access != nil {
			return access.Resolve(ctx, ref)
		}
		return others.Resolve(ctx, ref)
	})
}

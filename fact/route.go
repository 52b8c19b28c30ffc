package fact

import (
	"context"
	"fmt"
)

// Remembered returns a Resolver that gets live objects as all others: for those who judge many objects, and
// again when facts change.
func Remembered(next Resolver) Resolver {
	return ResolverFunc(func(ctx context.Context, ref Ref) (any, error) {
		if ref.Object != nil && ref.Object.Live {
			o := *ref.Object
			o.Live = false
			ref.Object = &o
		}
		return next.Resolve(ctx, ref)
	})
}

// Route returns a Resolver that gets objects from the first, HTTP answers from the second and
// answers about access from the third. Each may be nil: facts of that sort are then errors.
func Route(objects, http, access Resolver) Resolver {
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
		case ref.Access != nil && access != nil:
			return access.Resolve(ctx, ref)
		case ref.Access != nil:
			return nil, fmt.Errorf("ask %s: nobody here knows what users may do", ref)
		}
		return nil, fmt.Errorf("resolve fact: the reference is empty")
	})
}

package live

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/compile/guard"
	"github.com/usher-dev/usher/internal/webhookconfig"
)

// Places returns where objects of kinds are written: the subresources that are known to contain
// them, and otherwise the resource that find returns. A no-match error means that the cluster does
// not have the kind.
func Places(find func(context.Context, schema.GroupVersionKind) (schema.GroupVersionResource, error)) guard.Places {
	return func(ctx context.Context, gvk schema.GroupVersionKind) ([]guard.Place, error) {
		var all []guard.Place
		for _, s := range webhookconfig.Subresources(gvk) {
			place := guard.Place{GroupResource: s.GroupResource, Subresource: s.Name}
			for _, operation := range s.Operations {
				place.Verbs = append(place.Verbs, verbOf(operation))
			}
			all = append(all, place)
		}
		if all != nil {
			return all, nil
		}
		resource, err := find(ctx, gvk)
		switch {
		case meta.IsNoMatchError(err):
			return nil, nil
		case err != nil:
			return nil, err
		}
		return []guard.Place{{GroupResource: resource.GroupResource()}}, nil
	}
}

// verbOf returns the verb that API servers authorize for an operation.
func verbOf(operation usher.Operation) string {
	switch operation {
	case usher.Update:
		return "update"
	case usher.Delete:
		return "delete"
	case usher.Create, usher.Connect:
	}
	return "create"
}

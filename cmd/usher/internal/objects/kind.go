package objects

import (
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/usher-dev/usher/internal/audit/result"
	"github.com/usher-dev/usher/internal/kind"
)

// KindOf returns the resource of a kind. Of one that is not known it is the usual plural, and
// namespaced.
func KindOf(gvk schema.GroupVersionKind, kinds *kind.Set) result.Kind {
	for _, served := range kinds.Serving(gvk) {
		if !strings.Contains(served.Name, "/") {
			return result.Kind{Resource: gvk.GroupVersion().WithResource(served.Name), Kind: gvk.Kind, Namespaced: served.Namespaced}
		}
	}
	plural, _ := meta.UnsafeGuessKindToResource(gvk)
	return result.Kind{Resource: plural, Kind: gvk.Kind, Namespaced: true}
}

package objects

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/internal/audit/result"
	"github.com/usher-dev/usher/internal/kind"
)

// Place returns the kind of an object. One of a namespaced kind that names no namespace gets this one, as with kubectl,
// or default if it is empty: then kinds that are not known are taken not to be namespaced.
func (i *Input) Place(namespace string, kinds *kind.Set) (result.Kind, error) {
	of := result.IdentityOf(i.Object)
	gv, err := schema.ParseGroupVersion(of.APIVersion)
	if err != nil {
		return result.Kind{}, fmt.Errorf("%s: %w", i.File, err)
	}
	metadata, ok := i.Object["metadata"].(map[string]any)
	if !ok {
		return result.Kind{}, fmt.Errorf("%s: %s has no metadata", i.File, of.Kind)
	}
	k := KindOf(gv.WithKind(of.Kind), kinds)
	if namespace == "" && kinds.Has(gv.WithKind(of.Kind)) {
		namespace = metav1.NamespaceDefault
	}
	if of.Namespace == "" && namespace != "" && k.Namespaced {
		metadata["namespace"] = namespace
	}
	return k, nil
}

// NoteNamespace prints to s.Err, once, that an object names another namespace than -n, which does not count for it.
func NoteNamespace(cmd *cobra.Command, s cli.Streams, inputs []Input, namespace string) {
	if namespace == "" || !cmd.Flags().Changed("namespace") {
		return
	}
	for i := range inputs {
		if own := result.IdentityOf(inputs[i].Object).Namespace; own != "" && own != namespace {
			cli.Notef(cmd, s, "warning", "the namespace from the provided object %q does not match the namespace %q: -n is for objects that name none", own, namespace)
			return
		}
	}
}

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

package authorize

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/pager"

	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/cmd/usher/internal/cluster"
	"github.com/usher-dev/usher/internal/proof"
)

// A Stored is a policy of a cluster that needs a proof.
type Stored struct {
	Kind            api.Kind
	Namespace, Name string
	// Proof is the value of its annotation. Unproven is the reason in its status why it is not
	// proven; empty if it is proven.
	Proof, Unproven string

	version string
}

// String returns the kind and name of the policy.
func (s Stored) String() string {
	if s.Namespace == "" {
		return s.Kind.Kind + " " + s.Name
	}
	return s.Kind.Kind + " " + s.Namespace + "/" + s.Name
}

// untold is the reason given for a policy whose status says nothing about its proof yet.
const untold = "its status does not tell yet: a server that runs writes it"

// provable returns the kinds whose policies need a proof.
func provable() []api.Kind {
	return slices.DeleteFunc(api.Kinds(), func(k api.Kind) bool { return !k.NeedsProof })
}

// kindNames returns the prefixes of the names of policies that need a proof.
func kindNames() []string {
	var names []string
	for _, kind := range provable() {
		names = append(names, strings.ToLower(kind.Kind)+"/")
	}
	return names
}

// find returns the named policies, or those that are not proven; leftOut is as for [Policies].
func find(ctx context.Context, client dynamic.Interface, namespace string, names []string, leftOut func(error) error) ([]Stored, error) {
	if len(names) == 0 {
		all, err := Policies(ctx, client, namespace, leftOut)
		return slices.DeleteFunc(all, func(s Stored) bool { return s.Unproven == "" }), err
	}
	var found []Stored
	for _, given := range names {
		word, name, ok := strings.Cut(given, "/")
		kinds := provable()
		i := slices.IndexFunc(kinds, func(k api.Kind) bool { return k.IsNamed(word) })
		if !ok || i < 0 {
			return nil, fmt.Errorf("%s: expected KIND/NAME, as in objectpolicy/NAME, with a kind that needs a proof: %s", given, strings.Join(kindNames(), ", "))
		}
		if kinds[i].Namespaced && namespace == "" {
			return nil, fmt.Errorf("%s/%s: say in which namespace it is, with --namespace", word, name)
		}
		object, err := cluster.Policies(client, &kinds[i], namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return nil, fmt.Errorf("get %s: %w", kinds[i].Kind, err)
		}
		found = append(found, stored(kinds[i], object))
	}
	return found, nil
}

// Policies returns the policies of a namespace that need a proof; all if it is empty. It calls leftOut
// with the error of each kind that the user may not list, and continues if the result is nil.
func Policies(ctx context.Context, client dynamic.Interface, namespace string, leftOut func(error) error) ([]Stored, error) {
	var all []Stored
	for _, kind := range provable() {
		if namespace != "" && !kind.Namespaced {
			continue
		}
		list := func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return cluster.Policies(client, &kind, namespace).List(ctx, o)
		}
		err := pager.New(list).EachListItem(ctx, metav1.ListOptions{}, func(item runtime.Object) error {
			if object, ok := item.(*unstructured.Unstructured); ok {
				all = append(all, stored(kind, object))
			}
			return nil
		})
		// A kind whose definition is missing has no policies.
		if err == nil || apierrors.IsNotFound(err) {
			continue
		}
		forbidden := apierrors.IsForbidden(err)
		err = fmt.Errorf("list %s: %w", kind.Resource, err)
		if forbidden {
			err = leftOut(err)
		}
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

func stored(kind api.Kind, object *unstructured.Unstructured) Stored {
	s := Stored{
		Kind: kind, Namespace: object.GetNamespace(), Name: object.GetName(),
		Proof: object.GetAnnotations()[proof.Annotation], version: object.GetResourceVersion(),
	}
	known := cluster.ProofOf(object)
	if s.Unproven = known.Why; known.State == api.NoProofNeeded {
		s.Unproven = untold
	}
	return s
}

// annotate sets the annotation of a policy that has not changed since it was read, and returns the
// result.
func (s *Stored) annotate(ctx context.Context, client dynamic.Interface, text any, o metav1.PatchOptions) (string, error) {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"resourceVersion": s.version, "annotations": map[string]any{proof.Annotation: text},
	}})
	if err != nil {
		return "", err
	}
	object, err := cluster.Policies(client, &s.Kind, s.Namespace).Patch(ctx, s.Name, types.MergePatchType, patch, o)
	if err != nil {
		return "", err
	}
	return object.GetAnnotations()[proof.Annotation], nil
}

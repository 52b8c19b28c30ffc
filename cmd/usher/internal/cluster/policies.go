package cluster

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/internal/rule"
)

// Policies returns the policies of a kind: those of a namespace, unless it is empty or the kind has none.
func Policies(client dynamic.Interface, kind *api.Kind, namespace string) dynamic.ResourceInterface {
	if !kind.Namespaced {
		namespace = ""
	}
	return client.Resource(kind.GroupVersionResource()).Namespace(namespace)
}

// Unserved reports whether an error is that of an API server which does not serve the kind of an object.
func Unserved(err error) bool {
	return apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

// NoNamespace returns the error of an API server which has no namespace of that name, and nil otherwise, also if the user
// may not ask.
func NoNamespace(ctx context.Context, client dynamic.Interface, name string) error {
	if name == "" {
		return nil
	}
	namespaces := client.Resource(corev1.SchemeGroupVersion.WithResource("namespaces"))
	_, err := namespaces.Get(ctx, name, metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		return nil
	}
	// Who may not list them gets no suggestion.
	all, listErr := namespaces.List(ctx, metav1.ListOptions{})
	if listErr != nil {
		return err
	}
	var names []string
	for i := range all.Items {
		names = append(names, all.Items[i].GetName())
	}
	if near := rule.Nearest(name, names); near != "" {
		return fmt.Errorf("%w: did you mean %s?", err, near)
	}
	return err
}

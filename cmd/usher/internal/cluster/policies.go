package cluster

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/api/kcloudlabs/v1alpha1"
	"github.com/usher-dev/usher/internal/rule"
)

// Policies returns the policies of a kind: those of a namespace, unless it is empty or the kind has none.
func Policies(client dynamic.Interface, kind *api.Kind, namespace string) dynamic.ResourceInterface {
	if !kind.Namespaced {
		namespace = ""
	}
	return client.Resource(kind.GroupVersionResource()).Namespace(namespace)
}

// ProofOf returns what the status of a policy says about its proof, which cannot be checked without the key. A status
// that says nothing, or is about an older version of the policy, results in the zero Proof: it was written by a version
// without proofs, or will be updated soon.
func ProofOf(policy *unstructured.Unstructured) api.Proof {
	var p api.Proof
	enforced := false
	conditions, _, _ := unstructured.NestedSlice(policy.Object, "status", "conditions")
	for _, item := range conditions {
		c, _ := item.(map[string]any)
		holds := c["status"] == string(metav1.ConditionTrue)
		switch {
		case c["observedGeneration"] != policy.GetGeneration():
		case c["type"] == v1alpha1.ConditionEnforced:
			enforced = holds
		case c["type"] == v1alpha1.ConditionProven && holds:
			p.State = api.Proven
		case c["type"] == v1alpha1.ConditionProven:
			p.State = api.Unproven
			p.Why, _ = c["message"].(string)
		}
	}
	if p.State == api.Unproven && enforced {
		p.State = api.Recorded
	}
	return p
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

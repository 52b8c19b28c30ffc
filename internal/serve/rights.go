package serve

import (
	"context"
	"fmt"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
	clusterfact "github.com/usher-dev/usher/fact/cluster"
)

// may asks the API server whether all of its authorizers together allow the request r.
func (m *clusterRuntime) may(ctx context.Context, r *usher.Request) (bool, error) {
	d, err := clusterfact.Authorizer(m.Clients.Kube.AuthorizationV1().SubjectAccessReviews()).Decide(ctx, r)
	if d.Verdict == usher.Allow {
		return true, nil
	}
	return false, err
}

// reviewTimeout bounds how long an API server may take for one question.
const reviewTimeout = 3 * time.Second

// readable returns an error if this server may not read objects of a kind.
func (m *clusterRuntime) readable(ctx context.Context, of schema.GroupVersionKind) error {
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	resource, err := m.resolver.Resource(ctx, of)
	if err != nil {
		return nil // Another check reports unknown kinds.
	}
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "get", Group: resource.Group, Version: resource.Version, Resource: resource.Resource},
	}}
	answer, err := m.Clients.Kube.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
	if err != nil || answer.Status.Allowed {
		return nil // Report only what is certain.
	}
	return fmt.Errorf("Usher may not get %s", resource.GroupResource()) //nolint:staticcheck // The text continues a sentence.
}

package serve

import (
	"context"
	"fmt"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	usher "github.com/usher-dev/usher"
)

// reviewTimeout bounds how long an API server may think about one question.
const reviewTimeout = 3 * time.Second

// may asks the API server whether a user may do what r asks for, by all authorizers that it
// has.
func (m *clusterRuntime) may(ctx context.Context, r *usher.Request) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: r.User.Name, UID: r.User.UID, Groups: r.User.Groups, Extra: map[string]authorizationv1.ExtraValue{},
	}}
	for key, values := range r.User.Extra {
		review.Spec.Extra[key] = values
	}
	if r.Access.NonResource {
		review.Spec.NonResourceAttributes = &authorizationv1.NonResourceAttributes{Path: r.Access.Path, Verb: r.Access.Verb}
	} else {
		review.Spec.ResourceAttributes = &authorizationv1.ResourceAttributes{
			Verb: r.Access.Verb, Group: r.Resource.Group, Version: r.Resource.Version, Resource: r.Resource.Resource,
			Subresource: r.Subresource, Name: r.Name, Namespace: r.Namespace,
		}
	}
	answer, err := m.Clients.Kube.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return false, fmt.Errorf("review access of %s: %w", r.User.Name, err)
	}
	return answer.Status.Allowed, nil
}

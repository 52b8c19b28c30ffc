package serve

import (
	"context"
	"fmt"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/simulate/authz"
)

// reviewTimeout limits one SubjectAccessReview.
const reviewTimeout = 3 * time.Second

// may asks the API server whether all of its authorizers together allow the request r.
func (m *clusterRuntime) may(ctx context.Context, r *usher.Request) (bool, error) {
	answer, err := m.review(ctx, r)
	if err != nil {
		return false, err
	}
	return answer.Allowed, nil
}

// access answers the questions of rules about the rights of users.
func (m *clusterRuntime) access(ctx context.Context, ref fact.Ref) (any, error) {
	r, err := authz.RequestOf(ref)
	if err != nil {
		return nil, err
	}
	answer, err := m.review(ctx, r)
	switch {
	case err != nil:
		return nil, err
	case answer.Allowed:
		return fact.AccessValue(fact.AccessAllow, answer.Reason), nil
	case answer.Denied:
		return fact.AccessValue(fact.AccessDeny, answer.Reason), nil
	}
	return fact.AccessValue(fact.AccessNoOpinion, answer.Reason), nil
}

// review asks the API server about a request to authorize.
func (m *clusterRuntime) review(ctx context.Context, r *usher.Request) (*authorizationv1.SubjectAccessReviewStatus, error) {
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	review := authz.SubjectAccessReview(r)
	answer, err := m.Clients.Kube.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("review access of %s: %w", r.User.Name, err)
	}
	return &answer.Status, nil
}

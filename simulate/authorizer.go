package simulate

import (
	"context"
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/simulate/authz"
)

// An offline authorizer authorizes by the roles and bindings of a cluster from files. It is for
// conditions that use an authorizer; the authorization of the request itself is not simulated.
type offline struct{ chain authz.Chain }

func newOffline(objects []map[string]any) (*offline, error) {
	found, err := authz.FromTrees(objects)
	if err != nil {
		return nil, err
	}
	rbac, _ := authz.NewRBAC(found)
	return &offline{authz.Chain{{Name: "system:masters", Authorizer: authz.Privileged()}, {Name: "rbac", Authorizer: rbac}}}, nil
}

// Authorize implements [authorizer.Authorizer].
func (o *offline) Authorize(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	answer := o.chain.Authorize(ctx, accessOf(a))
	switch answer.Verdict {
	case usher.Allow:
		return authorizer.DecisionAllow, answer.Reason, answer.Err
	case usher.Deny:
		return authorizer.DecisionDeny, answer.Reason, answer.Err
	case usher.NoOpinion:
	}
	return authorizer.DecisionNoOpinion, answer.Reason, answer.Err
}

func accessOf(a authorizer.Attributes) *usher.Request {
	r := &usher.Request{
		Phase:       usher.Authorize,
		Resource:    schema.GroupVersionResource{Group: a.GetAPIGroup(), Version: a.GetAPIVersion(), Resource: a.GetResource()},
		Subresource: a.GetSubresource(),
		Name:        a.GetName(),
		Namespace:   a.GetNamespace(),
		Access:      &usher.Access{Verb: a.GetVerb(), NonResource: !a.IsResourceRequest()},
	}
	if r.Access.NonResource {
		r.Access.Path = a.GetPath()
	}
	if who := a.GetUser(); who != nil {
		r.User = usher.User{Name: who.GetName(), UID: who.GetUID(), Groups: who.GetGroups(), Extra: who.GetExtra()}
	}
	return r
}

// reviews sends reviews to a live API server.
type reviews struct{ client kubernetes.Interface }

func newReviews(config *rest.Config) (authorizer.Authorizer, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("read cluster: %w", err)
	}
	return &reviews{client}, nil
}

// Authorize implements [authorizer.Authorizer].
func (r *reviews) Authorize(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	review := &authorizationv1.SubjectAccessReview{}
	if who := a.GetUser(); who != nil {
		review.Spec.User, review.Spec.UID, review.Spec.Groups = who.GetName(), who.GetUID(), who.GetGroups()
	}
	if a.IsResourceRequest() {
		review.Spec.ResourceAttributes = &authorizationv1.ResourceAttributes{
			Namespace: a.GetNamespace(), Verb: a.GetVerb(), Group: a.GetAPIGroup(), Version: a.GetAPIVersion(),
			Resource: a.GetResource(), Subresource: a.GetSubresource(), Name: a.GetName(),
		}
	} else {
		review.Spec.NonResourceAttributes = &authorizationv1.NonResourceAttributes{Path: a.GetPath(), Verb: a.GetVerb()}
	}
	answer, err := r.client.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
	switch {
	case err != nil:
		return authorizer.DecisionNoOpinion, "", err
	case answer.Status.Allowed:
		return authorizer.DecisionAllow, answer.Status.Reason, nil
	case answer.Status.Denied:
		return authorizer.DecisionDeny, answer.Status.Reason, nil
	}
	return authorizer.DecisionNoOpinion, answer.Status.Reason, nil
}

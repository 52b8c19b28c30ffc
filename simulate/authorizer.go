package simulate

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/access"
	"github.com/usher-dev/usher/internal/simulate/authz"
)

// An offline authorizer authorizes by the roles and bindings of a cluster from files. It is for
// conditions that use an authorizer; the authorization of the request itself is not simulated.
type offline struct{ chain authz.Chain }

func newOffline(objects []map[string]any) (*offline, error) {
	chain, err := authz.Server(objects)
	if err != nil {
		return nil, err
	}
	return &offline{chain}, nil
}

// Authorize implements [authorizer.Authorizer].
func (o *offline) Authorize(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	answer := o.chain.Authorize(ctx, access.Request(a))
	switch answer.Verdict {
	case usher.Allow:
		return authorizer.DecisionAllow, answer.Reason, answer.Err
	case usher.Deny:
		return authorizer.DecisionDeny, answer.Reason, answer.Err
	case usher.NoOpinion:
	}
	return authorizer.DecisionNoOpinion, answer.Reason, answer.Err
}

// newReviews returns an authorizer that sends reviews to a live API server.
func newReviews(config *rest.Config) (authorizer.Authorizer, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("read cluster: %w", err)
	}
	reviews, err := authorizerfactory.DelegatingAuthorizerConfig{
		SubjectAccessReviewClient: client.AuthorizationV1(),
		WebhookRetryBackoff:       &wait.Backoff{Steps: 1},
	}.New()
	if err != nil {
		return nil, fmt.Errorf("read cluster: %w", err)
	}
	return reviews, nil
}

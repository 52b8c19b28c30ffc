package admission

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/cel/library"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/access"
)

// authorizer is the variable authorizer, or authorizer.requestResource.
func (a *activation) authorizer(name string) (any, bool) {
	if a.has&withAuthorizer == 0 {
		return nil, false
	}
	r := a.in.Request
	who := &user.DefaultInfo{Name: r.User.Name, UID: r.User.UID, Groups: r.User.Groups, Extra: r.User.Extra}
	if name == resourceName {
		return library.NewResourceAuthorizerVal(who, a, requested{r}), true
	}
	return library.NewAuthorizerVal(who, a), true
}

// errAsked ends an evaluation that lacks the answer to a question of access.
var errAsked = errors.New("the answer is not known yet")

// Authorize implements [authorizer.Authorizer].
func (a *activation) Authorize(_ context.Context, q authorizer.Attributes) (authorizer.Decision, string, error) {
	value, err := a.in.Facts.Value(fact.Question{Request: access.Request(q)})
	if _, missing := errors.AsType[*fact.Missing](err); missing {
		a.end(err)
		return authorizer.DecisionNoOpinion, "", errAsked
	}
	if err != nil {
		return authorizer.DecisionNoOpinion, "", err
	}
	answer, _ := value.(map[string]any)
	reason, _ := answer["reason"].(string)
	if text, ok := answer["error"].(string); ok {
		err = errors.New(text)
	}
	switch answer["decision"] {
	case "allow":
		return authorizer.DecisionAllow, reason, err
	case "deny":
		return authorizer.DecisionDeny, reason, err
	}
	return authorizer.DecisionNoOpinion, reason, err
}

// A requested is the endpoint of a request, as [library.Resource].
type requested struct{ r *usher.Request }

func (q requested) GetName() string                          { return q.r.Name }
func (q requested) GetNamespace() string                     { return q.r.Namespace }
func (q requested) GetResource() schema.GroupVersionResource { return q.r.Resource }
func (q requested) GetSubresource() string                   { return q.r.Subresource }

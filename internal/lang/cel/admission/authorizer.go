package admission

import (
	"context"
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/cel/library"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/fact"
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
	value, err := a.in.Facts.Value(fact.Question{Request: accessOf(q)})
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

// accessOf returns the question in the form in which it is a fact. A selector that cannot be read
// demands nothing: authorizers get no more of it either.
func accessOf(q authorizer.Attributes) *usher.Request {
	r := &usher.Request{Phase: usher.Authorize, Access: &usher.Access{Verb: q.GetVerb(), NonResource: !q.IsResourceRequest()}}
	if who := q.GetUser(); who != nil {
		r.User = usher.User{Name: who.GetName(), UID: who.GetUID(), Groups: who.GetGroups(), Extra: who.GetExtra()}
	}
	if r.Access.NonResource {
		r.Access.Path = q.GetPath()
		return r
	}
	r.Resource = schema.GroupVersionResource{Group: q.GetAPIGroup(), Version: q.GetAPIVersion(), Resource: q.GetResource()}
	r.Subresource, r.Namespace, r.Name = q.GetSubresource(), q.GetNamespace(), q.GetName()
	fields, _ := q.GetFieldSelector()
	for _, f := range fields {
		r.Access.Fields = append(r.Access.Fields, usher.Requirement{Key: f.Field, Operator: operatorOf(f.Operator), Values: []string{f.Value}})
	}
	labels, _ := q.GetLabelSelector()
	for i := range labels {
		r.Access.Labels = append(r.Access.Labels, usher.Requirement{Key: labels[i].Key(), Operator: operatorOf(labels[i].Operator()), Values: labels[i].ValuesUnsorted()})
	}
	return r
}

// operatorOf is the operator of a selector as a SubjectAccessReview names it.
func operatorOf(o selection.Operator) string {
	switch o {
	case selection.Equals, selection.DoubleEquals, selection.In:
		return string(metav1.LabelSelectorOpIn)
	case selection.NotEquals, selection.NotIn:
		return string(metav1.LabelSelectorOpNotIn)
	case selection.Exists:
		return string(metav1.LabelSelectorOpExists)
	case selection.DoesNotExist:
		return string(metav1.LabelSelectorOpDoesNotExist)
	case selection.GreaterThan, selection.LessThan:
		// A SubjectAccessReview has none of these; what it does not know demands nothing.
	}
	return string(o)
}

// A requested is the endpoint of a request, as [library.Resource].
type requested struct{ r *usher.Request }

func (q requested) GetName() string                          { return q.r.Name }
func (q requested) GetNamespace() string                     { return q.r.Namespace }
func (q requested) GetResource() schema.GroupVersionResource { return q.r.Resource }
func (q requested) GetSubresource() string                   { return q.r.Subresource }

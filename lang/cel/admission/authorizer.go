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
	ref, err := accessFact(q)
	if err != nil {
		return authorizer.DecisionNoOpinion, "", err
	}
	value, err := a.in.Facts.Value(ref)
	if _, missing := errors.AsType[*fact.Missing](err); missing {
		a.interrupt(err)
		return authorizer.DecisionNoOpinion, "", errAsked
	}
	if err != nil {
		return authorizer.DecisionNoOpinion, "", err
	}
	answer, _ := value.(map[string]any)
	reason, _ := answer["reason"].(string)
	switch answer["decision"] {
	case fact.AccessAllow:
		return authorizer.DecisionAllow, reason, nil
	case fact.AccessDeny:
		return authorizer.DecisionDeny, reason, nil
	}
	return authorizer.DecisionNoOpinion, reason, nil
}

// accessFact returns the fact that the answer to a question is.
func accessFact(q authorizer.Attributes) (fact.Ref, error) {
	a := &fact.Access{
		Verb: q.GetVerb(), Group: q.GetAPIGroup(), Version: q.GetAPIVersion(), Resource: q.GetResource(), Subresource: q.GetSubresource(),
		Namespace: q.GetNamespace(), Name: q.GetName(), NonResource: !q.IsResourceRequest(),
	}
	if a.NonResource {
		a.Path = q.GetPath()
	}
	if who := q.GetUser(); who != nil {
		a.User, a.UID, a.Groups, a.Extra = who.GetName(), who.GetUID(), who.GetGroups(), who.GetExtra()
	}
	fields, err := q.GetFieldSelector()
	if err != nil {
		return fact.Ref{}, err
	}
	for _, f := range fields {
		a.Fields = append(a.Fields, fact.Requirement{Key: f.Field, Operator: operatorOf(f.Operator), Values: []string{f.Value}})
	}
	labels, err := q.GetLabelSelector()
	if err != nil {
		return fact.Ref{}, err
	}
	for i := range labels {
		a.Labels = append(a.Labels, fact.Requirement{Key: labels[i].Key(), Operator: operatorOf(labels[i].Operator()), Values: labels[i].ValuesUnsorted()})
	}
	return fact.Ref{Access: a}, nil
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

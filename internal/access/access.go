// Package access reads what API servers ask authorizers.
package access

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	usher "github.com/usher-dev/usher"
)

// Request returns the request to authorize that attributes are about, without a UID. Of selectors that cannot be
// read completely, the requirements that could be read remain: without the others the request is for more objects.
func Request(a authorizer.Attributes) *usher.Request {
	r := &usher.Request{Phase: usher.Authorize, User: User(a.GetUser()), Access: &usher.Access{Verb: a.GetVerb()}}
	if !a.IsResourceRequest() {
		r.Access.NonResource, r.Access.Path = true, a.GetPath()
		return r
	}
	r.Resource = schema.GroupVersionResource{Group: a.GetAPIGroup(), Version: a.GetAPIVersion(), Resource: a.GetResource()}
	r.Subresource, r.Namespace, r.Name = a.GetSubresource(), a.GetNamespace(), a.GetName()
	byLabel, _ := a.GetLabelSelector()
	for i := range byLabel {
		r.Access.Labels = require(r.Access.Labels, byLabel[i].Key(), byLabel[i].Operator(), byLabel[i].ValuesUnsorted())
	}
	byField, _ := a.GetFieldSelector()
	for _, q := range byField {
		r.Access.Fields = require(r.Access.Fields, q.Field, q.Operator, []string{q.Value})
	}
	return r
}

// operators maps those of selectors to those of a SubjectAccessReview.
var operators = map[selection.Operator]string{
	selection.In: "In", selection.Equals: "In", selection.DoubleEquals: "In",
	selection.NotIn: "NotIn", selection.NotEquals: "NotIn",
	selection.Exists: "Exists", selection.DoesNotExist: "DoesNotExist",
}

// require adds a requirement. One with an operator that a SubjectAccessReview does not have requires nothing.
func require(all []usher.Requirement, key string, o selection.Operator, values []string) []usher.Requirement {
	if operator, ok := operators[o]; ok {
		all = append(all, usher.Requirement{Key: key, Operator: operator, Values: values})
	}
	return all
}

// User returns a user as policies see them.
func User(info user.Info) usher.User {
	if info == nil {
		return usher.User{}
	}
	return usher.User{Name: info.GetName(), UID: info.GetUID(), Groups: info.GetGroups(), Extra: info.GetExtra()}
}

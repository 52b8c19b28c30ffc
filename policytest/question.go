package policytest

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
)

// A question is a request to authorize as people write it down: a SubjectAccessReview,
// flattened.
type question struct {
	User        string              `json:"user,omitempty"`
	UID         string              `json:"uid,omitempty"`
	Groups      []string            `json:"groups,omitempty"`
	Extra       map[string][]string `json:"extra,omitempty"`
	Verb        string              `json:"verb,omitempty"`
	Group       string              `json:"group,omitempty"`
	Version     string              `json:"version,omitempty"`
	Resource    string              `json:"resource,omitempty"`
	Subresource string              `json:"subresource,omitempty"`
	// ObjectName is the name of the object, since cases have names, too.
	ObjectName string `json:"objname,omitempty"`
	Namespace  string `json:"namespace,omitempty"`
	// Path, if set, makes it a question about a path.
	Path   *string       `json:"path,omitempty"`
	Labels []requirement `json:"labels,omitempty"`
	Fields []requirement `json:"fields,omitempty"`
}

func (q *question) request() *usher.Request {
	r := &usher.Request{
		Phase:  usher.Authorize,
		User:   usher.User{Name: q.User, UID: q.UID, Groups: q.Groups, Extra: q.Extra},
		Access: &usher.Access{Verb: q.Verb, Labels: requirements(q.Labels), Fields: requirements(q.Fields)},
	}
	if q.Path != nil {
		r.Access.NonResource, r.Access.Path = true, *q.Path
		return r
	}
	r.Resource = schema.GroupVersionResource{Group: q.Group, Version: q.Version, Resource: q.Resource}
	r.Subresource, r.Namespace, r.Name = q.Subresource, q.Namespace, q.ObjectName
	return r
}

// spelled is a verdict as cases spell it.
func spelled(v usher.Verdict) string {
	switch v {
	case usher.Allow:
		return "Allow"
	case usher.Deny:
		return "Deny"
	}
	return "NoOpinion"
}

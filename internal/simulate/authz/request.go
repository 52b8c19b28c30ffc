package authz

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"

	usher "github.com/usher-dev/usher"
)

// A Line is a parsed HTTP request line.
type Line struct {
	Verb                     string
	NonResource              bool
	Path                     string
	Group, Version, Resource string
	Subresource              string
	Namespace, Name          string
	// The selectors are as they were written, and only there for the verbs that use them.
	LabelSelector, FieldSelector string
}

// ParseLine parses an HTTP request line as an API server does. The URL is a path with its query,
// optionally with a host.
func ParseLine(method, rawURL string) (Line, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return Line{}, fmt.Errorf("parse URL: %w", err)
	}
	if !strings.HasPrefix(u.Path, "/") {
		return Line{}, fmt.Errorf("parse URL %q: expected a path that begins with /", rawURL)
	}
	factory := request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}
	info, err := factory.NewRequestInfo(&http.Request{Method: strings.ToUpper(method), URL: u})
	if err != nil {
		return Line{}, fmt.Errorf("parse URL: %w", err)
	}
	return Line{
		Verb: info.Verb, NonResource: !info.IsResourceRequest, Path: info.Path,
		Group: info.APIGroup, Version: info.APIVersion, Resource: info.Resource, Subresource: info.Subresource,
		Namespace: info.Namespace, Name: info.Name,
		LabelSelector: info.LabelSelector, FieldSelector: info.FieldSelector,
	}, nil
}

// Request is the authorization request of the line. It has only the selector clauses that
// authorizers get.
func (l Line) Request(user usher.User) *usher.Request {
	r := &usher.Request{Phase: usher.Authorize, User: user, Access: &usher.Access{Verb: l.Verb, NonResource: l.NonResource}}
	if l.NonResource {
		r.Access.Path = l.Path
		return r
	}
	r.Resource = schema.GroupVersionResource{Group: l.Group, Version: l.Version, Resource: l.Resource}
	r.Subresource, r.Namespace, r.Name = l.Subresource, l.Namespace, l.Name
	// A selector that cannot be parsed is omitted, and rejected later.
	r.Access.Labels, _ = Labels(l.LabelSelector)
	r.Access.Fields, _ = Fields(l.FieldSelector)
	return r
}

// Labels are the clauses of a label selector that authorizers get.
func Labels(selector string) ([]usher.Requirement, error) {
	parsed, err := labels.Parse(selector)
	if err != nil {
		return nil, fmt.Errorf("parse label selector: %w", err)
	}
	clauses, _ := parsed.Requirements()
	var all []usher.Requirement
	for _, clause := range clauses {
		r := usher.Requirement{Key: clause.Key(), Operator: operatorOf(clause.Operator())}
		if values := clause.ValuesUnsorted(); len(values) > 0 {
			r.Values = slices.Sorted(slices.Values(values))
		}
		if r.Operator != "" {
			all = append(all, r)
		}
	}
	return all, nil
}

// Fields are the clauses of a field selector that authorizers get.
func Fields(selector string) ([]usher.Requirement, error) {
	parsed, err := fields.ParseSelector(selector)
	if err != nil {
		return nil, fmt.Errorf("parse field selector: %w", err)
	}
	var all []usher.Requirement
	for _, clause := range parsed.Requirements() {
		if operator := operatorOf(clause.Operator); operator != "" {
			all = append(all, usher.Requirement{Key: clause.Field, Operator: operator, Values: []string{clause.Value}})
		}
	}
	return all, nil
}

// operatorOf is the operator in a SubjectAccessReview, empty if there is none.
func operatorOf(operator selection.Operator) string {
	switch operator {
	case selection.Equals, selection.DoubleEquals, selection.In:
		return "In"
	case selection.NotEquals, selection.NotIn:
		return "NotIn"
	case selection.Exists:
		return "Exists"
	case selection.DoesNotExist:
		return "DoesNotExist"
	case selection.GreaterThan, selection.LessThan:
	}
	return ""
}

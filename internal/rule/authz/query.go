package authz

import (
	"strings"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/rule/allowance"
)

// A Query is a request to authorize, as rules look at it. It is immutable.
type Query struct {
	User *usher.User
	// AccountNamespace and AccountName are those of a service account, else empty. Node is
	// the node that the user is or runs on, if that is known.
	AccountNamespace, AccountName, Node string

	Verb Value
	// NonResource means that the request is for Path; the fields below are empty.
	NonResource bool
	Path        Value

	Group, Version, Resource Value
	// Subresource is empty for the resource itself, and "*" for all that it has.
	Subresource     string
	Name, Namespace Value

	Labels, Fields []usher.Requirement

	// Allowance is what a condition may take together with others; nil is one of its own.
	Allowance *allowance.Allowance
}

// QueryOf returns the query for r, whose phase is Authorize. Scope reports whether resources that
// are not Kubernetes' own are namespaced; nil knows none of them.
func QueryOf(r *usher.Request, scope func(group, resource string) Scope) Query {
	q := Query{User: &r.User}
	if r.Access != nil {
		q.Verb, q.NonResource = valueOf(r.Access.Verb), r.Access.NonResource
		q.Labels, q.Fields = r.Access.Labels, r.Access.Fields
	}
	q.identify()
	if q.NonResource {
		q.Path = valueOf(r.Access.Path)
		return q
	}
	q.Group, q.Version, q.Resource = valueOf(r.Resource.Group), valueOf(r.Resource.Version), valueOf(r.Resource.Resource)
	if r.Resource.Version == "" {
		q.Version = Value{Extent: All}
	}
	q.Subresource = r.Subresource
	q.Name = q.name(r.Name)
	q.Namespace = q.namespace(r.Namespace, scope)
	return q
}

// identify parses the user's name.
func (q *Query) identify() {
	if account, ok := strings.CutPrefix(q.User.Name, "system:serviceaccount:"); ok {
		namespace, name, _ := strings.Cut(account, ":")
		if namespace != "" && name != "" && !strings.Contains(name, ":") {
			q.AccountNamespace, q.AccountName = namespace, name
		}
	}
	if node, ok := strings.CutPrefix(q.User.Name, "system:node:"); ok {
		q.Node = node
	} else if nodes := q.User.Extra["authentication.kubernetes.io/node-name"]; len(nodes) == 1 {
		q.Node = nodes[0]
	}
}

// name is unknown for a create, and otherwise every name if none is given.
func (q *Query) name(name string) Value {
	switch {
	case name != "":
		return valueOf(name)
	case q.Verb == Value{Text: "create"} && q.Subresource == "":
		return Value{Extent: Unknown}
	}
	return Value{Extent: All}
}

// namespace is every one, unless it is given or the resource is cluster-scoped. A Namespace is in
// itself, as for API servers.
//
// A named object of an unknown resource without a namespace is taken for cluster-scoped: API
// servers would name the namespace otherwise.
func (q *Query) namespace(namespace string, scope func(group, resource string) Scope) Value {
	switch {
	case namespace != "":
		return valueOf(namespace)
	case q.Resource.Extent == All || q.Group.Extent == All:
		return Value{Extent: All}
	case q.Group.Text == "" && q.Resource.Text == "namespaces" && q.Name.Extent == One:
		return Value{Text: q.Name.Text}
	}
	known := ScopeOf(q.Group.Text, q.Resource.Text)
	if known == ScopeUnknown && scope != nil {
		known = scope(q.Group.Text, q.Resource.Text)
	}
	if known == ScopeCluster || known == ScopeUnknown && q.Name.Extent == One && q.Verb.Extent == One && !q.onCollections() {
		return Value{}
	}
	return Value{Extent: All}
}

func (q *Query) onCollections() bool { return HasSelectors(q.Verb.Text) }

// HasSelectors reports whether requests with the verb are for a collection: only these have selectors.
func HasSelectors(verb string) bool {
	return verb == "list" || verb == "watch" || verb == "deletecollection"
}

// collection reports whether the request is for a collection without a name.
func (q *Query) collection() bool {
	return q.Name.Extent == All && q.Verb.Extent == One && q.onCollections()
}

// Wildcard reports whether the request is for more than one value in some dimension.
func (q *Query) Wildcard() bool {
	if q.Verb.Extent == All {
		return true
	}
	if q.NonResource {
		return q.Path.Extent == All
	}
	return q.Group.Extent == All || q.Resource.Extent == All || q.Subresource == "*" ||
		q.Name.Extent == All || q.Namespace.Extent == All
}

package fact

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// An Access asks whether a user may do something, as a SubjectAccessReview does. Its value is
// {"decision": "allow", "deny" or "noOpinion", "reason": text}.
type Access struct {
	User, UID string
	Groups    []string
	Extra     map[string][]string

	Verb                                                   string
	Group, Version, Resource, Subresource, Namespace, Name string
	// Path is that of a request for no resource, which NonResource says that it is.
	Path        string
	NonResource bool
	// Fields and Labels are what the selectors of the request demand.
	Fields, Labels []Requirement
}

// A Requirement is one requirement of a selector.
type Requirement struct {
	Key, Operator string
	Values        []string
}

// The decisions about an [Access].
const (
	AccessAllow     = "allow"
	AccessDeny      = "deny"
	AccessNoOpinion = "noOpinion"
)

// AccessValue is the value of an [Access].
func AccessValue(decision, reason string) map[string]any {
	return map[string]any{"decision": decision, "reason": reason}
}

// String names the question, such as "whether jane may get pods/log shop/web".
func (a *Access) String() string {
	if a.NonResource {
		return fmt.Sprintf("whether %s may %s %s", a.User, a.Verb, a.Path)
	}
	what := a.Resource
	if a.Subresource != "" {
		what += "/" + a.Subresource
	}
	if a.Group != "" {
		what += "." + a.Group
	}
	return strings.TrimSpace(fmt.Sprintf("whether %s may %s %s %s", a.User, a.Verb, what, strings.Trim(a.Namespace+"/"+a.Name, "/")))
}

func (a *Access) key() string {
	var b strings.Builder
	fmt.Fprintf(&b, "access %q %q %q %q %q %q %q %q %q %q %q %t", a.User, a.UID, a.Groups, a.Verb,
		a.Group, a.Version, a.Resource, a.Subresource, a.Namespace, a.Name, a.Path, a.NonResource)
	for _, key := range slices.Sorted(maps.Keys(a.Extra)) {
		fmt.Fprintf(&b, " %q=%q", key, a.Extra[key])
	}
	for _, requirements := range [][]Requirement{a.Fields, a.Labels} {
		fmt.Fprintf(&b, " | %q", requirements)
	}
	return b.String()
}

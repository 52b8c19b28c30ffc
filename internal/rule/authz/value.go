package authz

import (
	"slices"
	"strings"

	usher "github.com/usher-dev/usher"
)

// A Value is the value of a request in one dimension, such as its namespace.
type Value struct {
	// Text is the one value, or what stands in the request for every one: "*" or nothing.
	Text   string
	Extent Extent
}

// An Extent is how much of a dimension a request is for.
type Extent uint8

// The extents.
const (
	// One is one value. The empty namespace is that of cluster-scoped resources.
	One Extent = iota
	// All is every value.
	All
	// Unknown is one value that is not known yet: the name of an object to create.
	Unknown
)

// valueOf parses a value of a request: * is every value.
func valueOf(text string) Value {
	if text == "*" {
		return Value{Text: text, Extent: All}
	}
	return Value{Text: text}
}

// A Set is the values in one dimension that a rule is for.
type Set struct {
	// Any means all values, including the empty one.
	Any      bool
	Patterns []Pattern
}

// meets reports whether the set covers v, for an Allow, or overlaps it.
func (s *Set) meets(v Value, e Effect, q *Query) bool {
	switch {
	case s.Any:
		return true
	case v.Extent == All:
		return e != Allow && len(s.Patterns) > 0
	case v.Extent == Unknown:
		return false
	}
	for i := range s.Patterns {
		if s.Patterns[i].meets(v.Text, e, q) {
			return true
		}
	}
	return false
}

// String is the set as it is written.
func (s *Set) String() string {
	if s.Any {
		return "*"
	}
	return join(s.Patterns)
}

// A Pattern is a text, a text with one * that matches any text, or a template, whose value is never
// a pattern.
type Pattern struct {
	// Prefix is the whole text if Star is false.
	Prefix, Suffix string
	Star           bool
	Template       *Template
}

// Matches reports whether the pattern, which is not a template, matches text.
func (p *Pattern) Matches(text string) bool {
	if !p.Star {
		return text == p.Prefix
	}
	return len(text) >= len(p.Prefix)+len(p.Suffix) && strings.HasPrefix(text, p.Prefix) && strings.HasSuffix(text, p.Suffix)
}

// meets is Matches for templates, too. A template without a value matches nothing in an Allow, and
// everything in other effects, which is the safe side.
func (p *Pattern) meets(text string, e Effect, q *Query) bool {
	if p.Template == nil {
		return p.Matches(text)
	}
	fits, ok := p.Template.equals(text, q)
	if !ok {
		return e != Allow
	}
	return fits
}

// String is the pattern as it is written.
func (p Pattern) String() string {
	switch {
	case p.Template != nil:
		return p.Template.String()
	case p.Star:
		return p.Prefix + "*" + p.Suffix
	}
	return p.Prefix
}

// A Resource is one of the resources of a rule. A rule for a resource is not for its
// subresources.
type Resource struct {
	// Every is every resource and every subresource: "*".
	Every bool
	// Name and Subresource may be "*": "pods/*" is all subresources of pods, "*/scale" is
	// that of all resources. Subresource is empty for the resource itself.
	Name, Subresource string
}

// meets reports whether the request's value is covered, for an Allow, or overlapped.
func (r *Resource) meets(q *Query, e Effect) bool {
	if r.Every {
		return true
	}
	if q.Resource.Extent == All && q.Subresource == "" {
		return e != Allow
	}
	return r.meetsName(q, e) && r.meetsSubresource(q.Subresource, e)
}

func (r *Resource) meetsName(q *Query, e Effect) bool {
	if r.Name == "*" {
		return true
	}
	if q.Resource.Extent == All {
		return e != Allow
	}
	return r.Name == q.Resource.Text
}

func (r *Resource) meetsSubresource(sub string, e Effect) bool {
	switch {
	case r.Subresource == sub:
		return true
	case r.Subresource == "*":
		return sub != ""
	case sub == "*":
		return e != Allow && r.Subresource != ""
	}
	return false
}

// String is the resource as it is written.
func (r Resource) String() string {
	switch {
	case r.Every:
		return "*"
	case r.Subresource != "":
		return r.Name + "/" + r.Subresource
	}
	return r.Name
}

// A Subject is some of the users; one that any of its items names is among them.
type Subject struct {
	Users, Groups   []Pattern
	ServiceAccounts []ServiceAccount
}

// A ServiceAccount is a pattern for namespaces and names of service accounts.
type ServiceAccount struct {
	Namespace, Name Pattern
}

// String is the service account as it is written.
func (s ServiceAccount) String() string { return s.Namespace.String() + "/" + s.Name.String() }

// AnySubject reports whether the user of q is one of the subjects.
func AnySubject(subjects []Subject, q *Query) bool {
	for i := range subjects {
		if subjects[i].Has(q) {
			return true
		}
	}
	return false
}

// Has reports whether the user of q is one of the subject.
func (s *Subject) Has(q *Query) bool {
	for i := range s.Users {
		if s.Users[i].Matches(q.User.Name) {
			return true
		}
	}
	for i := range s.Groups {
		if slices.ContainsFunc(q.User.Groups, s.Groups[i].Matches) {
			return true
		}
	}
	if q.AccountName == "" {
		return false
	}
	for i := range s.ServiceAccounts {
		if a := &s.ServiceAccounts[i]; a.Namespace.Matches(q.AccountNamespace) && a.Name.Matches(q.AccountName) {
			return true
		}
	}
	return false
}

func join[T interface{ String() string }](items []T) string {
	words := make([]string, len(items))
	for i, item := range items {
		words[i] = item.String()
	}
	return strings.Join(words, ", ")
}

// Among reports whether a user is one of the subjects.
func Among(subjects []Subject, u *usher.User) bool {
	q := Query{User: u}
	q.identify()
	return AnySubject(subjects, &q)
}

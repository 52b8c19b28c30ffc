package rule

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
)

// A ResourceMatch says which requests a rule is for by the endpoint that they go to, as the
// resource rules of Kubernetes' admission policies do (MatchResources in
// k8s.io/api/admissionregistration/v1).
type ResourceMatch struct {
	// Rules are alternatives; none means every request.
	Rules []ResourceRule
	// Excluded are requests that do not match, whatever Rules say.
	Excluded []ResourceRule
	// Exact leaves out objects that an API server has converted to another version.
	Exact bool
}

// A Scope is where resources are: "" for anywhere.
type Scope string

// The scopes of a [ResourceRule].
const (
	Cluster    Scope = "Cluster"
	Namespaced Scope = "Namespaced"
)

// A ResourceRule selects requests. Each list has alternatives, of which one has to match.
type ResourceRule struct {
	// Operations are those that match; none means all.
	Operations []usher.Operation
	// Groups and Versions may be "*".
	Groups, Versions []string
	// Resources may have a subresource behind a slash; both parts may be "*". A resource
	// without slash is for requests without subresource.
	Resources []string
	Scope     Scope
	// Names are those of the objects; none means all.
	Names []string
}

// Matches reports whether the endpoint of r is one that m is for. It allocates nothing.
func (m *ResourceMatch) Matches(r *usher.Request) bool { return m.unmet(r) == "" }

// Mismatch returns the empty string when m matches r, and otherwise the reason why not.
func (m *ResourceMatch) Mismatch(r *usher.Request) string {
	why := m.unmet(r)
	if why == noRule && r.Namespace == "" {
		inside := *r
		inside.Namespace = "default"
		if m.unmet(&inside) == "" {
			return "the resourceRules are for objects in namespaces, and the request has no namespace"
		}
	}
	return why
}

// noRule is why nothing matches a request that nobody thought of.
const noRule = "none of the resourceRules is for this request"

func (m *ResourceMatch) unmet(r *usher.Request) string {
	switch {
	case isAdmissionConfiguration(r):
		return "no policy is for admission policies and webhook configurations"
	case isReview(r):
		return "no policy is for reviews of access and identity"
	case m.Exact && !r.Requested.Empty() && (r.Requested != r.Kind || r.RequestedResource != r.Resource):
		return "the object was converted, and matchPolicy is Exact"
	case anyMatches(m.Excluded, r):
		return "excludeResourceRules leave it out"
	case len(m.Rules) > 0 && !anyMatches(m.Rules, r):
		return noRule
	}
	return ""
}

func anyMatches(rules []ResourceRule, r *usher.Request) bool {
	for i := range rules {
		if rules[i].Matches(r) {
			return true
		}
	}
	return false
}

// isAdmissionConfiguration reports whether a request is about what API servers never ask
// policies and webhooks about, so that these can always be corrected.
func isAdmissionConfiguration(r *usher.Request) bool {
	if r.Kind.Group != "admissionregistration.k8s.io" {
		return false
	}
	switch r.Kind.Kind {
	case "ValidatingWebhookConfiguration", "MutatingWebhookConfiguration",
		"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding":
		return true
	}
	return false
}

// isReview reports whether a request asks who a user is or what the user may do. API servers ask no
// admission policy about these: a policy that itself asks the authorizer would be evaluated for its
// own question, again and again.
func isReview(r *usher.Request) bool {
	switch r.Resource.Group {
	case "authentication.k8s.io":
		switch r.Resource.Resource {
		case "selfsubjectreviews", "tokenreviews":
			return true
		}
	case "authorization.k8s.io":
		switch r.Resource.Resource {
		case "localsubjectaccessreviews", "selfsubjectaccessreviews", "selfsubjectrulesreviews", "subjectaccessreviews":
			return true
		}
	}
	return false
}

// Matches reports whether the rule selects r. It allocates nothing.
func (s *ResourceRule) Matches(r *usher.Request) bool {
	return s.fitsScope(r) &&
		(len(s.Operations) == 0 || slices.Contains(s.Operations, r.Operation)) &&
		oneIs(s.Groups, r.Resource.Group) &&
		oneIs(s.Versions, r.Resource.Version) &&
		s.fitsResource(r) &&
		(len(s.Names) == 0 || slices.Contains(s.Names, r.Name))
}

func (s *ResourceRule) fitsScope(r *usher.Request) bool {
	// A namespace is in no namespace, although its requests name it as theirs.
	namespaced := r.Namespace != "" && r.Resource != (schema.GroupVersionResource{Version: "v1", Resource: "namespaces"})
	switch s.Scope {
	case "":
		return true
	case Cluster:
		return !namespaced
	case Namespaced:
		return namespaced
	}
	return false
}

func (s *ResourceRule) fitsResource(r *usher.Request) bool {
	for _, pattern := range s.Resources {
		resource, subresource, _ := strings.Cut(pattern, "/")
		if (resource == "*" || resource == r.Resource.Resource) && (subresource == "*" || subresource == r.Subresource) {
			return true
		}
	}
	return false
}

// oneIs reports whether one of words is "*" or word.
func oneIs(words []string, word string) bool {
	for _, w := range words {
		if w == "*" || w == word {
			return true
		}
	}
	return false
}

// String is the match in one stable line.
func (m *ResourceMatch) String() string {
	s := "every request"
	if len(m.Rules) > 0 {
		s = rulesText(m.Rules)
	}
	if len(m.Excluded) > 0 {
		s += " except " + rulesText(m.Excluded)
	}
	if m.Exact {
		s += " (exactly)"
	}
	return s
}

func rulesText(rules []ResourceRule) string {
	texts := make([]string, len(rules))
	for i := range rules {
		texts[i] = rules[i].String()
	}
	return strings.Join(texts, " or ")
}

// String is the rule in one stable line, such as "CREATE, UPDATE of apps/v1 deployments".
func (s *ResourceRule) String() string {
	text := "every operation"
	if len(s.Operations) > 0 {
		text = oneOf(s.Operations)
	}
	where := strings.Join(s.Versions, "|")
	if groups := strings.Join(s.Groups, "|"); groups != "" {
		where = groups + "/" + where
	}
	text = fmt.Sprintf("%s of %s %s", text, where, strings.Join(s.Resources, ", "))
	if s.Scope != "" {
		text += " in scope " + string(s.Scope)
	}
	if len(s.Names) > 0 {
		text += " named " + strings.Join(s.Names, ", ")
	}
	return text
}

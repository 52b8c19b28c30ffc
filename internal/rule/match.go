package rule

import (
	"fmt"
	"slices"
	"strings"

	usher "github.com/usher-dev/usher"
)

// A Match is the set of requests that a rule matches.
type Match struct {
	// Operations are those that match; none means all.
	Operations []usher.Operation
	// Namespace, if set, limits the rule to objects of that namespace, regardless of selectors: it
	// is the namespace of the policy.
	Namespace string
	// Namespaces are those where requests for objects in namespaces have to be, as far as names decide that: of
	// others the program of the rule says nothing. Nothing but coverages reads them.
	Namespaces Namespaces
	// Excluded are kinds that the rule never matches, regardless of selectors.
	Excluded *Excluded
	// Selectors are alternatives; none means every object of every kind.
	Selectors []Selector
	// Resources are by endpoint what Selectors are by kind; all of them have to match. A match
	// that has them has no Selectors, and is for subresources as far as they say so.
	Resources []ResourceMatch
}

// Matches reports whether the rule matches s. It allocates nothing.
func (m *Match) Matches(s *Target) bool {
	if !m.fits(s) {
		return false
	}
	for i := range m.Selectors {
		if m.Selectors[i].Matches(s) {
			return true
		}
	}
	return len(m.Selectors) == 0
}

// MatchesBy reports whether the rule is for s by one of its selectors; the operation is known to be
// that of s.
func (m *Match) MatchesBy(sel *Selector, s *Target) bool {
	return s.sent != sentToResources && m.InScope(s) && sel.Matches(s)
}

// fits reports whether the operation is that of s, and s is in scope.
func (m *Match) fits(s *Target) bool {
	return (len(m.Operations) == 0 || slices.Contains(m.Operations, s.Operation)) && m.InScope(s) && m.unfitResource(s) == ""
}

// unfitResource returns the empty string if the endpoint of s is one that m is for, and
// otherwise the reason why not.
func (m *Match) unfitResource(s *Target) string {
	if len(m.Resources) == 0 {
		return s.leftOut(len(m.Selectors) > 0)
	}
	if s.request == nil {
		return "the request is not known"
	}
	for i := range m.Resources {
		if why := m.Resources[i].Mismatch(s.request); why != "" {
			return why
		}
	}
	return ""
}

// InScope reports whether s is in the policy's own namespace, if it has one, and of a kind that
// is not excluded.
func (m *Match) InScope(s *Target) bool {
	return (m.Namespace == "" || m.Namespace == s.Namespace) && !m.Excluded.Has(s.APIVersion, s.Kind)
}

// Mismatch returns the empty string when m matches s, and otherwise the clause that failed,
// such as "operation DELETE is not CREATE, UPDATE". With several selectors it is that of
// the selector that came closest, the first of them if several did.
func (m *Match) Mismatch(s *Target) string {
	if len(m.Operations) > 0 && !slices.Contains(m.Operations, s.Operation) {
		return fmt.Sprintf("operation %s is not %s", s.Operation, oneOf(m.Operations))
	}
	if m.Namespace != "" && m.Namespace != s.Namespace {
		return fmt.Sprintf("namespace %q is not the policy's own, %q", s.Namespace, m.Namespace)
	}
	if m.Excluded.Has(s.APIVersion, s.Kind) {
		return NoAction(s.APIVersion + " " + s.Kind)
	}
	if why := m.unfitResource(s); why != "" {
		return why
	}
	if len(m.Selectors) == 0 {
		return ""
	}
	sel, d := m.closest(s)
	return sel.miss(s, d)
}

// Hit returns the clauses by which m matches s, such as "CREATE, UPDATE of v1 Pod labelled
// app=web", and the empty string when it does not.
func (m *Match) Hit(s *Target) string {
	if !m.fits(s) {
		return ""
	}
	narrow := Match{Operations: m.Operations, Namespace: m.Namespace, Resources: m.Resources}
	if len(m.Selectors) == 0 {
		return narrow.String()
	}
	for i := range m.Selectors {
		if m.Selectors[i].Matches(s) {
			narrow.Selectors = m.Selectors[i : i+1]
			return narrow.String()
		}
	}
	return ""
}

// NearlyMatches reports whether only the finest clauses of m (names, labels, fields) keep it from
// matching s: operation, kind and namespace fit. It is false when m matches.
func (m *Match) NearlyMatches(s *Target) bool {
	if len(m.Selectors) == 0 || !m.fits(s) {
		return false
	}
	_, d := m.closest(s)
	return depthName <= d && d < depthAll
}

// closest returns the first of the selectors that match s in most clauses.
func (m *Match) closest(s *Target) (*Selector, depth) {
	best, deepest := &m.Selectors[0], depthKind
	for i := range m.Selectors {
		if d := m.Selectors[i].reach(s); d > deepest {
			best, deepest = &m.Selectors[i], d
		}
	}
	return best, deepest
}

// String formats the match as one stable line.
func (m *Match) String() string {
	var b strings.Builder
	if len(m.Resources) > 0 {
		texts := make([]string, len(m.Resources))
		for i := range m.Resources {
			texts[i] = m.Resources[i].String()
		}
		return strings.Join(texts, ", and ")
	}
	if len(m.Operations) == 0 {
		b.WriteString("every operation")
	} else {
		b.WriteString(oneOf(m.Operations))
	}
	b.WriteString(" of ")
	if len(m.Selectors) == 0 {
		b.WriteString("every object")
	}
	for i := range m.Selectors {
		if i > 0 {
			b.WriteString(" or ")
		}
		b.WriteString(m.Selectors[i].String())
	}
	if m.Namespace != "" {
		b.WriteString(" in namespace " + m.Namespace)
	}
	return b.String()
}

func oneOf[S ~string](items []S) string {
	words := make([]string, len(items))
	for i, item := range items {
		words[i] = string(item)
	}
	return strings.Join(words, ", ")
}

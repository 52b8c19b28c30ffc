package rule

import (
	"fmt"
	"slices"
	"strings"

	usher "github.com/usher-dev/usher"
)

// A Match says which requests a rule is for.
type Match struct {
	// Operations are those that match; none means all.
	Operations []usher.Operation
	// Namespace, if set, limits the rule to objects of that namespace, whatever the
	// selectors say: it is the namespace of the policy.
	Namespace string
	// Selectors are alternatives; none means every object of every kind.
	Selectors []Selector
}

// Matches reports whether the rule is for s.
func (m *Match) Matches(s *Subject) bool { return m.Miss(s) == "" }

// Miss returns the empty string when m matches s, and otherwise the clause that failed,
// such as "operation DELETE is not one of CREATE, UPDATE". With several selectors it is
// that of the selector that came closest.
func (m *Match) Miss(s *Subject) string {
	if len(m.Operations) > 0 && !slices.Contains(m.Operations, s.Operation) {
		return fmt.Sprintf("operation %s is not %s", s.Operation, oneOf(m.Operations))
	}
	if m.Namespace != "" && m.Namespace != s.Namespace {
		return fmt.Sprintf("namespace %q is not the policy's own, %q", s.Namespace, m.Namespace)
	}
	if len(m.Selectors) == 0 {
		return ""
	}
	closest, miss := -1, ""
	for i := range m.Selectors {
		depth, why := m.Selectors[i].miss(s)
		if why == "" {
			return ""
		}
		if depth > closest {
			closest, miss = depth, why
		}
	}
	return miss
}

// Near reports whether only the finest clauses of m (names, labels, fields) keep it from
// matching s: operation, kind and namespace fit. It is false when m matches.
func (m *Match) Near(s *Subject) bool {
	if m.Matches(s) || len(m.Operations) > 0 && !slices.Contains(m.Operations, s.Operation) ||
		m.Namespace != "" && m.Namespace != s.Namespace {
		return false
	}
	return slices.ContainsFunc(m.Selectors, func(sel Selector) bool {
		depth, _ := sel.miss(s)
		return depth >= depthName
	})
}

// String is the match in one stable line.
func (m *Match) String() string {
	var b strings.Builder
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

package index

import (
	"fmt"

	"k8s.io/apimachinery/pkg/selection"

	"github.com/usher-dev/usher/internal/rule"
)

// A clause is a requirement of an entry under which the entry can be filed.
type clause struct {
	sort clauseSort
	key  string   // of a label; of a field, its path in one piece
	path []string // of a field
	// values are alternatives; none means that any value does.
	values []string
}

type clauseSort byte

const (
	byName clauseSort = iota
	byNamespace
	byLabel
	byField
)

// clausesOf returns the clauses of a selector, the most selective first.
func clausesOf(m *rule.Match, selector int32) []clause {
	var clauses []clause
	namespace := func(name string) {
		if name != "" {
			clauses = append(clauses, clause{sort: byNamespace, values: []string{name}})
		}
	}
	if selector == noSelector {
		namespace(m.Namespace)
		return clauses
	}
	sel := &m.Selectors[selector]
	if sel.Name != "" {
		clauses = append(clauses, clause{sort: byName, values: []string{sel.Name}})
	}
	namespace(m.Namespace)
	namespace(sel.Namespace)
	if sel.Name != "" {
		return clauses
	}
	return append(append(clauses, labelClauses(sel)...), fieldClauses(sel)...)
}

func labelClauses(sel *rule.Selector) []clause {
	if sel.Labels == nil {
		return nil
	}
	var clauses []clause
	requirements, _ := sel.Labels.Requirements()
	for i := range requirements {
		r := &requirements[i]
		switch r.Operator() {
		case selection.In, selection.Equals, selection.DoubleEquals:
			clauses = append(clauses, clause{sort: byLabel, key: r.Key(), values: r.ValuesUnsorted()})
		case selection.Exists, selection.GreaterThan, selection.LessThan:
			clauses = append(clauses, clause{sort: byLabel, key: r.Key()})
		case selection.DoesNotExist, selection.NotEquals, selection.NotIn:
			// Entries cannot be filed under what an object must not have.
		}
	}
	return clauses
}

func fieldClauses(sel *rule.Selector) []clause {
	var clauses []clause
	for i := range sel.Fields {
		if f := &sel.Fields[i]; f.Op == rule.In {
			clauses = append(clauses, clause{sort: byField, key: pathKey(f.Path), path: f.Path, values: f.Values})
		}
	}
	return clauses
}

// pathKey returns a text that is unique for the path.
func pathKey(path []string) string { return fmt.Sprintf("%q", path) }

// never reports whether the selector matches no object at all.
func never(sel *rule.Selector) bool { return sel.Name == "" && sel.Never != "" }

// A demand counts the entries with the same requirement.
type demand map[term]int

// A term is a clause with one of its values.
type term struct {
	sort  clauseSort
	key   string
	value string
}

func (d demand) add(clauses []clause) {
	for _, c := range clauses {
		for _, value := range c.values {
			d[term{c.sort, c.key, value}]++
		}
	}
}

// rarest returns the clause that the fewest entries share, the first of several, or nil if there is
// none. A clause for presence only is the last resort, because objects tend to have what policies
// require.
func (d demand) rarest(clauses []clause) *clause {
	var best *clause
	fewest := 0
	for i := range clauses {
		c := &clauses[i]
		sharing := 0
		for _, value := range c.values {
			sharing = max(sharing, d[term{c.sort, c.key, value}])
		}
		if best == nil || len(c.values) > 0 && (len(best.values) == 0 || sharing < fewest) {
			best, fewest = c, sharing
		}
	}
	return best
}

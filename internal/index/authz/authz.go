// Package authz finds the access rules that match a request without trying them all.
//
// For each dimension of a request, such as its user or its namespace, the index has the set of
// rules for each value, and the set for all values. The value of a request in a dimension selects a
// few of these sets; a rule that matches is in one of them in every dimension. If one dimension
// leaves few rules, these are tried one by one. Otherwise the sets are combined as bitsets.
//
// An [Index] is immutable: when policies change, create a new one.
package authz

import (
	"math/bits"
	"slices"
	"sync"

	"github.com/usher-dev/usher/internal/rule/authz"
)

// An Index holds rules, organized for lookup. It is safe for concurrent use.
type Index struct {
	rules []*authz.Rule
	// words is the length of a bitset.
	words int

	// users includes service accounts; memberships has the rules for each group of a user.
	users, memberships dimension
	verbs, paths       dimension
	groups             dimension
	resources          resources
	namespaces, names  dimension

	work sync.Pool
}

// collect adds the sets that q selects.
func (ix *Index) collect(w *work, q *authz.Query) {
	w.begin()
	ix.collectSubjects(w, q)
	w.end()
	ix.verbs.collect(w, q.Verb)
	w.end()
	if q.NonResource {
		ix.paths.collect(w, q.Path)
		w.end()
		return
	}
	ix.resources.collect(w, q)
	w.end()
	ix.groups.collect(w, q.Group)
	w.end()
	ix.namespaces.collect(w, q.Namespace)
	w.end()
	ix.names.collect(w, q.Name)
	w.end()
}

// few is how many rules are tried one by one rather than combining bitsets.
const few = 48

// New returns an index of rules, which must not change afterwards. It sorts them in the order of
// evaluation.
func New(rules []*authz.Rule) *Index {
	rules = slices.Clone(rules)
	authz.Sort(rules)
	ix := &Index{rules: rules, words: (len(rules) + 63) / 64}
	for i, r := range rules {
		ix.add(int32(i), r)
	}
	for _, d := range []*dimension{&ix.users, &ix.memberships, &ix.verbs, &ix.paths, &ix.groups, &ix.namespaces, &ix.names} {
		d.arrange(ix.words)
	}
	ix.resources.arrange(ix.words)
	ix.work.New = func() any {
		return &work{rules: len(rules), sum: make([]uint64, ix.words), product: make([]uint64, ix.words)}
	}
	return ix
}

// Rules returns all rules in the order of evaluation. They are shared: do not change them.
func (ix *Index) Rules() []*authz.Rule { return ix.rules }

// Scan is like Matching, but tries every rule.
func (ix *Index) Scan(q *authz.Query, yield func(place int32) bool) {
	for i, r := range ix.rules {
		if r.Matches(q) && !yield(int32(i)) {
			return
		}
	}
}

// Matching yields the indexes in Rules of the rules that match q, in ascending order, until yield
// returns false. It allocates nothing.
func (ix *Index) Matching(q *authz.Query, yield func(place int32) bool) {
	w := ix.work.Get().(*work)
	defer ix.work.Put(w)
	ix.collect(w, q)
	if some, ok := w.fewest(); ok {
		for _, id := range some {
			if ix.rules[id].Matches(q) && !yield(id) {
				return
			}
		}
		return
	}
	for i, word := range w.combine() {
		for ; word != 0; word &= word - 1 {
			id := int32(i<<6 + bits.TrailingZeros64(word))
			if ix.rules[id].Matches(q) && !yield(id) {
				return
			}
		}
	}
}

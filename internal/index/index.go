// Package index finds the rules that match a request without trying them all.
//
// An [Index] is immutable: when policies change, create a new one. The cost of a lookup depends on
// the number of rules that match, not on the number of all rules.
package index

import (
	"reflect"
	"slices"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/rule"
)

// An Index holds rules, organized for lookup. It is safe for concurrent use.
type Index struct {
	rules  []rule.Rule
	stages []stage
	// readPaths are the paths that selectors read. likely also has the paths that the rules for a
	// kind read, if decoding these early may be worthwhile.
	readPaths *usher.Paths
	likely    map[likelyKey]*usher.Paths
	// likelyAt has the same for resources that rules name.
	likelyAt map[resourceOf]*usher.Paths
}

// A stage holds the rules of one pass of one phase.
type stage struct {
	phase usher.Phase
	pass  int
	// kinds has the selectors by the kind that they select; all has the rules without selectors.
	kinds map[kindKey]*bucket
	all   map[operation]*bucket
	// resources has the rules that name resources; nil if there are none.
	resources *endpoints
}

type kindKey struct {
	operation  operation
	apiVersion string
	kind       string
}

// An operation is one that rules select, or all operations.
type operation struct {
	name  usher.Operation
	every bool
}

// operations returns the operations under which the rules for op are filed.
func operations(op usher.Operation) [2]operation {
	return [...]operation{{every: true}, {name: op}}
}

// New returns an index of rules, which are in emission order and must not change afterwards.
func New(rules []rule.Rule) *Index {
	ix := &Index{rules: rules}
	for i := range rules {
		ix.stage(rules[i].Phase, rules[i].Pass).add(int32(i), &rules[i].Match)
	}
	for _, st := range ix.stages {
		for _, b := range st.kinds {
			b.arrange(rules)
		}
		for _, b := range st.all {
			b.arrange(rules)
		}
	}
	ix.findReadPaths()
	return ix
}

// Update is like New, but for rules that differ little from those of last, which may be nil. It is
// very cheap if all rules are for the same requests as before.
func Update(last *Index, rules []rule.Rule) *Index {
	if last == nil || !slices.EqualFunc(last.rules, rules, sameRequests) {
		return New(rules)
	}
	// Everything else refers to rules only by their position.
	ix := &Index{rules: rules, stages: last.stages}
	ix.findReadPaths()
	return ix
}

// sameRequests reports whether two rules are run at the same time for the same requests.
func sameRequests(a, b rule.Rule) bool {
	return a.Phase == b.Phase && a.Pass == b.Pass && a.Match.Namespace == b.Match.Namespace &&
		(a.Match.Excluded == b.Match.Excluded || reflect.DeepEqual(a.Match.Excluded, b.Match.Excluded)) &&
		same(a.Match.Operations, b.Match.Operations) && same(a.Match.Selectors, b.Match.Selectors) && same(a.Match.Resources, b.Match.Resources)
}

// same reports whether two slices are identical or equal.
func same[E any](a, b []E) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0] || reflect.DeepEqual(a, b))
}

// stage returns the stage of a pass, and creates it if necessary.
func (ix *Index) stage(phase usher.Phase, pass int) *stage {
	if st := ix.find(phase, pass); st != nil {
		return st
	}
	ix.stages = append(ix.stages, stage{
		phase: phase,
		pass:  pass,
		kinds: map[kindKey]*bucket{},
		all:   map[operation]*bucket{},
	})
	return &ix.stages[len(ix.stages)-1]
}

func (ix *Index) find(phase usher.Phase, pass int) *stage {
	for i := range ix.stages {
		if st := &ix.stages[i]; st.pass == pass && st.phase == phase {
			return st
		}
	}
	return nil
}

func (st *stage) add(rank int32, m *rule.Match) {
	if len(m.Resources) > 0 {
		if st.resources == nil {
			st.resources = &endpoints{}
		}
		st.resources.add(rank, m)
		return
	}
	if len(m.Operations) == 0 {
		st.addFor(operation{every: true}, rank, m)
	}
	for i, name := range m.Operations {
		if !slices.Contains(m.Operations[:i], name) {
			st.addFor(operation{name: name}, rank, m)
		}
	}
}

func (st *stage) addFor(op operation, rank int32, m *rule.Match) {
	if len(m.Selectors) == 0 {
		add(st.all, op, entry{rank: rank, selector: noSelector})
	}
	for i := range m.Selectors {
		sel := &m.Selectors[i]
		add(st.kinds, kindKey{op, sel.APIVersion, sel.Kind}, entry{rank: rank, selector: int32(i)})
	}
}

func add[K comparable](buckets map[K]*bucket, key K, e entry) {
	b := buckets[key]
	if b == nil {
		b = &bucket{}
		buckets[key] = b
	}
	b.entries = append(b.entries, e)
}

// Rules returns the rules in emission order. They are shared: do not change them.
func (ix *Index) Rules() []rule.Rule { return ix.rules }

// Passes returns the passes of a phase that have rules, in ascending order.
func (ix *Index) Passes(phase usher.Phase) []int {
	var passes []int
	for i := range ix.stages {
		if ix.stages[i].phase == phase {
			passes = append(passes, ix.stages[i].pass)
		}
	}
	slices.Sort(passes)
	return passes
}

// MayMatch reports whether some rule of the phase of r is for objects of its kind or for its
// resource, regardless of names, labels and fields. If not, Matching finds no rules.
func (ix *Index) MayMatch(r *usher.Request) bool {
	apiVersion := r.Kind.GroupVersion().String()
	for i := range ix.stages {
		st := &ix.stages[i]
		if st.phase != r.Phase {
			continue
		}
		for _, op := range operations(r.Operation) {
			if st.all[op] != nil || st.kinds[kindKey{op, apiVersion, r.Kind.Kind}] != nil {
				return true
			}
		}
		if st.resources.any(r) {
			return true
		}
	}
	return false
}

// Matching appends to dst the rules of a pass that match s, in emission order, and returns it. It
// allocates nothing while dst has capacity and s meets at most [maxLists] of the lists under which
// the selectors of its kind are filed.
func (ix *Index) Matching(dst []*rule.Rule, phase usher.Phase, pass int, s *rule.Target) []*rule.Rule {
	st := ix.find(phase, pass)
	if st == nil {
		return dst
	}
	var buffer [maxLists][]entry
	lists := buffer[:0]
	for _, op := range operations(s.Operation) {
		if b := st.kinds[kindKey{op, s.APIVersion, s.Kind}]; b != nil {
			lists = b.collect(lists, s)
		}
		if b := st.all[op]; b != nil {
			lists = b.collect(lists, s)
		}
	}
	if r := s.Request(); r != nil {
		lists = st.resources.collect(lists, r)
	}
	return ix.merge(dst, lists, s)
}

// merge appends the rules in lists that match s. Every list is in emission order; a rule
// may be in several.
func (ix *Index) merge(dst []*rule.Rule, lists [][]entry, s *rule.Target) []*rule.Rule {
	last := int32(-1)
	for len(lists) > 0 {
		first := 0
		for i := range lists {
			if lists[i][0].rank < lists[first][0].rank {
				first = i
			}
		}
		e := lists[first][0]
		if lists[first] = lists[first][1:]; len(lists[first]) == 0 {
			lists[first] = lists[len(lists)-1]
			lists = lists[:len(lists)-1]
		}
		if e.rank != last && e.matches(&ix.rules[e.rank].Match, s) {
			last = e.rank
			dst = append(dst, &ix.rules[e.rank])
		}
	}
	return dst
}

// Scan does what Matching does by trying every rule. Tests compare Matching with it.
func (ix *Index) Scan(dst []*rule.Rule, phase usher.Phase, pass int, s *rule.Target) []*rule.Rule {
	for i := range ix.rules {
		r := &ix.rules[i]
		if r.Phase == phase && r.Pass == pass && r.Match.Matches(s) {
			dst = append(dst, r)
		}
	}
	return dst
}

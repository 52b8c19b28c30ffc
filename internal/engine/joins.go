package engine

import (
	"hash/maphash"
	"slices"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/rule"
)

// joins are what sets of rules read and compute together, for those that matched last. Few sets match
// most requests, and to join them takes longer than to run a small rule. It is safe for concurrent use.
type joins struct {
	seed  maphash.Seed
	slots [256]atomic.Pointer[join]
}

// A join is the paths that rules read together, and the values that several of them compute.
type join struct {
	rules []*rule.Rule
	// What the paths depend on besides rules.
	kind      schema.GroupKind
	operation usher.Operation
	from, old *usher.Paths

	object, oldObject *usher.Paths
	common            rule.Common
	// brief says that all of the rules are.
	brief bool
}

func newJoins() *joins { return &joins{seed: maphash.MakeSeed()} }

// slot returns where the join of rules is, if it is known.
func (j *joins) slot(rules []*rule.Rule) *atomic.Pointer[join] {
	some := [...]*rule.Rule{rules[0], rules[len(rules)/2], rules[len(rules)-1]}
	return &j.slots[maphash.Comparable(j.seed, some)%uint64(len(j.slots))]
}

// is reports whether j is the join of rules for an evaluation.
func (j *join) is(d *evaluation, rules []*rule.Rule) bool {
	return j != nil && j.from == d.paths && j.old == d.oldPaths && j.operation == d.request.Operation &&
		j.kind == d.request.Kind.GroupKind() && slices.Equal(j.rules, rules)
}

// join returns what the rules of a pass read and compute together. There is one rule at least.
func (d *evaluation) join(rules []*rule.Rule) *join {
	slot := d.engine.joins.slot(rules)
	if known := slot.Load(); known.is(d, rules) {
		return known
	}
	made := &join{
		rules: slices.Clone(rules), kind: d.request.Kind.GroupKind(), operation: d.request.Operation,
		from: d.paths, old: d.oldPaths, common: rule.CommonOf(rules),
		brief: !slices.ContainsFunc(rules, func(r *rule.Rule) bool { return !r.Brief() }),
	}
	made.object, made.oldObject = d.readPaths(rules)
	slot.Store(made)
	return made
}

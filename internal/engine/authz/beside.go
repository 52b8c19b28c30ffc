package authz

import (
	"slices"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/rule/authz"
)

// Beside returns what decides as an engine would that has other rules besides those of e, and none of the
// policies that are left out. It takes memory for the other rules only.
func (e *Engine) Beside(leftOut map[usher.PolicyRef]bool, rules []*authz.Rule) usher.Decider {
	rules = slices.Clone(rules)
	authz.Sort(rules)
	b := &Engine{base: e, protected: e.protected, options: e.options}
	b.matcher = &beside{base: e.matcher, leftOut: leftOut, rules: rules}
	b.build(rules)
	b.states.New = func() any { return newState(b) }
	return b
}

// A beside finds the rules of another matcher and some more.
type beside struct {
	base    Matcher
	leftOut map[usher.PolicyRef]bool
	rules   []*authz.Rule
}

// Rules implements [Matcher].
func (b *beside) Rules() []*authz.Rule {
	all := slices.DeleteFunc(slices.Clone(b.base.Rules()), func(r *authz.Rule) bool { return b.leftOut[r.Policy.Ref] })
	all = append(all, b.rules...)
	authz.Sort(all)
	return all
}

// Matching implements [Matcher] but for the places, which are those in the rules of the base, followed by the
// other ones. They come in the order of evaluation.
func (b *beside) Matching(q *authz.Query, yield func(place int32) bool) {
	base := b.base.Rules()
	next, more := 0, true
	// others yields the rules that come before one of the base.
	others := func(before *authz.Rule) bool {
		for ; more && next < len(b.rules); next++ {
			r := b.rules[next]
			if before != nil && r.Policy.Compare(before.Policy) > 0 {
				break
			}
			if r.Matches(q) {
				more = yield(int32(len(base) + next))
			}
		}
		return more
	}
	b.base.Matching(q, func(place int32) bool {
		r := base[place]
		if b.leftOut[r.Policy.Ref] {
			return true
		}
		if others(r) {
			more = yield(place)
		}
		return more
	})
	others(nil)
}

// entry returns the entry at a place.
func (e *Engine) entry(place int32) *entry {
	if e.base == nil {
		return &e.entries[place]
	}
	if n := int32(len(e.base.entries)); place >= n {
		return &e.entries[place-n]
	}
	return &e.base.entries[place]
}

// condition returns a condition, and the policy that has it.
func (e *Engine) condition(n int32) (*authz.Condition, usher.PolicyRef) {
	if e.base == nil {
		return &e.conditions[n], e.owners[n]
	}
	if of := int32(len(e.base.conditions)); n >= of {
		return &e.conditions[n-of], e.owners[n-of]
	}
	return e.base.condition(n)
}

// numbered returns how many conditions those of the base are.
func (e *Engine) numbered() int {
	if e.base == nil {
		return 0
	}
	return len(e.base.conditions)
}

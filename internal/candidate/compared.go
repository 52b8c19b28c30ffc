package candidate

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/engine"
	"github.com/usher-dev/usher/internal/index"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/internal/rule/authz"
)

// A compared is a version of a candidate, compared with versions of the policies in force.
type compared struct {
	of compile.Compiled
	// with are the policies in force that it affects, and lasting those of them whose changes begin the counting again.
	with, lasting []api.Object
	// elsewhere says that API servers enforce some of them, so that no decision is by all.
	elsewhere bool
	versions  []rule.Compared
	affected  map[usher.PolicyRef]bool
	rules     []rule.Rule
	index     *index.Index
	// accessWas and accessIs are the rules of its authorization policies, among the affected ones.
	accessWas, accessIs []*authz.Rule
	// was decides by the policies in force that it affects, is by those that would be.
	was, is      usher.Decider
	notEffective string
	since        time.Time
	counted      *counted
}

// A counted is what is counted of a candidate. It is safe for concurrent use.
type counted struct {
	mu     sync.Mutex
	counts rule.CandidateCounts
}

// compare begins to compare a candidate.
func (e *Evaluator) compare(of *compile.Compiled, beside compile.Beside) *compared {
	c := &compared{of: *of, affected: beside.Affected, since: time.Now().Truncate(time.Second), counted: &counted{}}
	c.with = objectsOf(beside.Was)
	c.elsewhere = slices.ContainsFunc(beside.Was, func(p compile.Compiled) bool { return p.Elsewhere })
	c.lasting = slices.DeleteFunc(slices.Clone(c.with), func(object api.Object) bool { return isOfTenants(object, of) })
	for _, object := range c.lasting {
		v := rule.Compared{Policy: compile.Ref(object), UID: object.GetUID(), Generation: object.GetGeneration()}
		c.versions = append(c.versions, v)
	}
	was, is := compile.Order(beside.Was), compile.Order(beside.Is)
	l := e.laneOf(of.Ref.Namespace)
	c.was, c.is = e.decider(l, was), e.decider(l, is)
	for _, r := range slices.Concat(was, is) {
		if r.Policy != (usher.PolicyRef{}) && !r.Inspects {
			c.rules = append(c.rules, r)
		}
	}
	c.index = index.New(c.rules)
	c.accessWas, c.accessIs = compile.Access(beside.Was), compile.Access(beside.Is)
	c.notEffective = c.ineffective(of.Candidate, e.options.Access != nil)
	return c
}

// isOfTenants reports whether a policy or an exemption in force is of a namespace, and a candidate of the cluster does
// not replace it: who writes these may not hide what is counted.
func isOfTenants(object api.Object, from *compile.Compiled) bool {
	if from.Ref.Namespace != "" || object.GetNamespace() == "" {
		return false
	}
	ref, of := compile.Ref(object), from.Candidate
	return ref != of.Replaces && !slices.ContainsFunc(of.Policies, func(p compile.Compiled) bool { return p.Ref == ref })
}

// goesOn has c count where last did, if only labels have changed, or policies of tenants.
func (c *compared) goesOn(last *compared) {
	if last != nil && last.is != nil && sameVersion(last.of.Policy.Object, c.of.Policy.Object) && slices.EqualFunc(last.lasting, c.lasting, sameVersion) {
		c.since, c.counted = last.since, last.counted
	}
}

// sameVersion reports whether two policies decide the same.
func sameVersion(a, b api.Object) bool {
	return a == b || compile.Ref(a) == compile.Ref(b) && a.GetUID() == b.GetUID() && a.GetGeneration() == b.GetGeneration() &&
		api.Suspended(a) == api.Suspended(b) && reflect.DeepEqual(api.Spec(a), api.Spec(b))
}

// surplus is a candidate that is not evaluated, as there are too many.
func surplus(of *compile.Compiled) *compared {
	return &compared{of: *of, index: index.New(nil), counted: &counted{}, notEffective: fmt.Sprintf("it is not evaluated: %d candidates are, those of the cluster first, and then the oldest of each namespace", Most)}
}

// decider decides by rules, at each entry by those that belong to it.
func (e *Evaluator) decider(l *lane, rules []rule.Rule) usher.Decider {
	options := e.options.Engine
	options.Overruns = l.overruns
	by := func(some []rule.Rule) usher.Decider { return engine.New(index.New(some), e.options.Facts, options) }
	return engine.NewEntries(rules, rule.Cover(rules).Entries(), by(rules), by)
}

// Unauthorizing is why a candidate is not evaluated where no requests are authorized.
const Unauthorizing = "it is about authorization policies, and this server authorizes no requests: nothing is counted"

func (c *compared) ineffective(of *compile.Candidate, authorizes bool) string {
	replaced := func(object api.Object) bool { return compile.Ref(object) == of.Replaces }
	switch {
	case of.Replaces.Name != "" && !slices.ContainsFunc(c.with, replaced):
		return fmt.Sprintf("spec.replaces: there is no %s in force: the candidate replaces nothing", of.Replaces)
	case of.Authorizes() && !authorizes:
		return Unauthorizing
	case len(c.rules) == 0 && !c.authorizes():
		return "none of its policies has a rule that decides something, for itself or in force"
	}
	return ""
}

// authorizes reports whether it is about authorization policies, among others.
func (c *compared) authorizes() bool { return len(c.accessWas)+len(c.accessIs) > 0 }

// holds reports whether c is this candidate, compared with the same versions of the same policies.
func (c *compared) holds(of *compile.Compiled, beside compile.Beside) bool {
	return c.is != nil && c.of.Candidate == of.Candidate && slices.Equal(c.with, objectsOf(beside.Was))
}

// objectsOf returns the policies, sorted.
func objectsOf(all []compile.Compiled) []api.Object {
	objects := make([]api.Object, len(all))
	for i := range all {
		objects[i] = all[i].Policy.Object
	}
	slices.SortFunc(objects, func(a, b api.Object) int { return cmp.Compare(compile.Ref(a).String(), compile.Ref(b).String()) })
	return objects
}

func (c *compared) state() rule.CandidateState {
	c.counted.mu.Lock()
	defer c.counted.mu.Unlock()
	object := c.of.Policy.Object
	s := rule.CandidateState{
		Ref: c.of.Ref, UID: object.GetUID(), Generation: object.GetGeneration(),
		Compared: c.versions, Since: c.since, Counts: c.counted.counts, NotEffective: c.notEffective,
	}
	if c.of.Policy.Position("").File != "" {
		s.UID = ""
	}
	return s
}

// count changes the counts.
func (c *compared) count(f func(*rule.CandidateCounts)) {
	c.counted.mu.Lock()
	defer c.counted.mu.Unlock()
	f(&c.counted.counts)
}

func skipped(all []*compared) {
	for _, c := range all {
		c.count(func(n *rule.CandidateCounts) { n.Skipped++ })
	}
}

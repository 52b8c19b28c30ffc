// Package impact compares what two sets of policies do with the same requests: which of them are
// newly denied, allowed, warned of, changed in another way or failing, and of which that is unknown.
package impact

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/door/admission"
	"github.com/usher-dev/usher/internal/audit/judge"
	"github.com/usher-dev/usher/internal/rule"
)

// A Side is one of the two sets of policies. Rules that the sides share are the same values: the set of
// one is compiled with what the other has compiled.
type Side struct {
	Decider usher.Decider
	Rules   []rule.Rule
}

// A Subject is a request that both sides decide.
type Subject struct {
	// Request is one of the mutating phase.
	Request *usher.Request
	// Admitted means that the object is as API servers validate it, defaults and changes of policies
	// included: what a policy would change about the object as it was sent is not known then.
	Admitted bool
	// Unknown says what is not known of the request.
	Unknown Unknowns
	// From is where the request comes from, such as a file and a line.
	From string
}

// Unknowns are the parts of a request that its source does not have. The reasons are empty if it has them.
type Unknowns struct {
	// Object and OldObject are why there is no object, or no old one.
	Object, OldObject string
	// Defaults is why fields that API servers fill in may be absent from the object.
	Defaults string
	// User is why it is not known who sends the request.
	User string
}

// A Kind is how the outcomes of a request differ.
type Kind string

// The kinds of differences, from the one that hurts most.
const (
	// Failing: a rule fails that did not fail before, whether or not that denies the request.
	Failing Kind = "failing"
	// Denied: the request is denied, and was not.
	Denied Kind = "denied"
	// Unknown: the source of the request does not have what a policy reads.
	Unknown Kind = "unknown"
	// Changed: the object that comes out is another one.
	Changed Kind = "changed"
	// Warned: the user is warned of something, and was not.
	Warned Kind = "warned"
	// Allowed: the request was denied, and is not.
	Allowed Kind = "allowed"
)

// Kinds returns all kinds, in order.
func Kinds() []Kind { return []Kind{Failing, Denied, Unknown, Changed, Warned, Allowed} }

// A Difference is what one policy makes of a request that it did not make of it before.
type Difference struct {
	Kind   Kind
	Policy usher.PolicyRef
	// Message is what the policy says, or why it is unknown.
	Message string
}

// A Comparison compares two sides. It is safe for concurrent use.
type Comparison struct {
	was, is Side
	// changed are the rules, of both sides, of policies that differ.
	changed []rule.Rule
	refs    []usher.PolicyRef
}

// New returns a comparison of two sides.
func New(was, is Side) *Comparison {
	c := &Comparison{was: was, is: is}
	_, c.refs = judge.New(was.Rules, judge.Options{}).Update(is.Rules)
	for _, r := range slices.Concat(was.Rules, is.Rules) {
		if slices.Contains(c.refs, r.Policy) {
			c.changed = append(c.changed, r)
		}
	}
	return c
}

// Policies returns the policies that differ: those that changed, came or are gone.
func (c *Comparison) Policies() []usher.PolicyRef { return c.refs }

// Compare decides a request by both sides and returns the differences, in the order of the kinds. It
// reports whether a policy that differs is for the request at all.
func (c *Comparison) Compare(ctx context.Context, s *Subject) (differences []Difference, concerned bool, err error) {
	rules := c.concerning(s.Request)
	if len(rules) == 0 {
		return nil, false, nil
	}
	if unknown := s.unknown(rules); len(unknown) > 0 {
		return unknown, true, nil
	}
	was, err := c.was.decide(ctx, s)
	if err != nil {
		return nil, true, err
	}
	is, err := c.is.decide(ctx, s)
	if err != nil {
		return nil, true, err
	}
	all := compare(was, is)
	slices.SortFunc(all, func(a, b Difference) int {
		return cmp.Or(cmp.Compare(slices.Index(Kinds(), a.Kind), slices.Index(Kinds(), b.Kind)), cmp.Compare(a.Policy.String(), b.Policy.String()))
	})
	return all, true, nil
}

// Unsure returns, in place of differences, that those of policies that read other objects are not known:
// some of these objects are missing.
func (c *Comparison) Unsure(s *Subject, differences []Difference, missing string) []Difference {
	var all []Difference
	reading := map[usher.PolicyRef]bool{}
	for _, r := range c.concerning(s.Request) {
		if !reading[r.Policy] && r.DependsOn(s.Request.Operation).Any(rule.OnFacts) {
			reading[r.Policy] = true
			all = append(all, Difference{Kind: Unknown, Policy: r.Policy, Message: missing})
		}
	}
	return append(all, slices.DeleteFunc(differences, func(d Difference) bool { return reading[d.Policy] })...)
}

// concerning returns the rules of policies that differ that may be for a request: selectors of objects
// and names need objects, which may be unknown.
func (c *Comparison) concerning(r *usher.Request) []*rule.Rule {
	object, err := r.Target().Tree()
	if err != nil {
		object = nil
	}
	target := rule.TargetOf(r, object)
	target.APIVersion, target.Kind = r.Kind.GroupVersion().String(), r.Kind.Kind
	target.Namespace = cmp.Or(target.Namespace, r.Namespace)
	var some []*rule.Rule
	for i := range c.changed {
		m := c.changed[i].Match
		bySelectors := len(m.Selectors) > 0 && len(m.Resources) == 0
		m.Selectors = nil
		switch {
		case c.changed[i].Inspects, !bySelectors && !m.Matches(&target):
		case bySelectors && (!m.InScope(&target) || len(m.Operations) > 0 && !slices.Contains(m.Operations, r.Operation)):
		default:
			some = append(some, &c.changed[i])
		}
	}
	return some
}

// unknown returns what cannot be said of a request: for each policy that reads what is not there.
func (s *Subject) unknown(rules []*rule.Rule) []Difference {
	var all []Difference
	for _, r := range rules {
		if why := s.lacks(r); why != "" && !slices.ContainsFunc(all, func(d Difference) bool { return d.Policy == r.Policy }) {
			all = append(all, Difference{Kind: Unknown, Policy: r.Policy, Message: why})
		}
	}
	return all
}

// lacks returns why a rule cannot be compared on the request, empty if it can.
func (s *Subject) lacks(r *rule.Rule) string {
	object, old := r.ReadPaths()
	switch {
	case s.Unknown.Object != "":
		return s.Unknown.Object
	case s.Unknown.User != "" && r.DependsOn(s.Request.Operation).Any(rule.OnUser|rule.OnAccess):
		return s.Unknown.User
	case s.Unknown.OldObject != "" && !old.Within(&usher.Paths{}):
		return s.Unknown.OldObject
	case s.Admitted && r.Phase == usher.Mutate:
		return "it changes objects, and only the object that came out is known"
	case s.Unknown.Defaults != "" && s.absent(object):
		return s.Unknown.Defaults
	}
	return ""
}

// absent reports whether some of the paths may be in fields that API servers fill in: all but labels,
// annotations and what is there.
func (s *Subject) absent(paths *usher.Paths) bool {
	if paths.Whole() {
		return true
	}
	written := usher.Paths{}
	for _, known := range [][]string{{"apiVersion"}, {"kind"}, {"metadata", "name"}, {"metadata", "namespace"}, {"metadata", "labels"}, {"metadata", "annotations"}} {
		written.Add(known...)
	}
	tree, err := s.Request.Object.Tree()
	if err != nil {
		return true
	}
	for key, value := range tree {
		if key == "data" || key == "stringData" || key == "rules" || scalar(value) {
			written.Add(key)
		}
	}
	return !paths.Within(&written)
}

func scalar(value any) bool {
	switch value.(type) {
	case map[string]any, []any:
		return false
	}
	return true
}

// An effect is what a side makes of a request.
type effect struct {
	denied bool
	// said is what each policy says.
	said map[usher.PolicyRef]*saying
	// result is the object that comes out.
	result map[string]any
}

// A saying is what one policy says about a request.
type saying struct {
	denies, warns, fails bool
	message              string
	patch                usher.Patch
}

// decide has a side decide a request.
func (d *Side) decide(ctx context.Context, s *Subject) (*effect, error) {
	e := &effect{said: map[usher.PolicyRef]*saying{}}
	if s.Admitted {
		r := *s.Request
		r.Phase = usher.Validate
		validation, err := d.Decider.Decide(ctx, &r)
		if err != nil {
			return nil, fmt.Errorf("decide %s: %w", s.From, err)
		}
		e.add(&validation)
		return e, nil
	}
	result, err := admission.Decide(ctx, d.Decider, s.Request)
	if err != nil {
		return nil, fmt.Errorf("decide %s: %w", s.From, err)
	}
	e.add(&result.Mutation)
	e.add(&result.Validation)
	if e.result, err = result.Object.Tree(); err != nil {
		return nil, fmt.Errorf("decode %s: %w", s.From, err)
	}
	return e, nil
}

// add adds what a phase says.
func (e *effect) add(d *usher.Decision) {
	e.denied = e.denied || d.Verdict == usher.Deny
	for i := range d.Findings {
		f := &d.Findings[i]
		says := e.said[f.Policy]
		if says == nil {
			says = &saying{}
			e.said[f.Policy] = says
		}
		says.denies = says.denies || f.Outcome == usher.Rejected || f.Outcome == usher.Failed && !f.Ignored
		if err := f.Failure(); err != nil && f.Outcome != usher.Exempted {
			says.fails = true
			says.message = cmp.Or(says.message, err.Error())
		}
		if f.Outcome != usher.Exempted {
			for _, c := range f.Checks {
				says.warns = says.warns || slices.Contains(c.Actions, usher.ActWarn)
				says.message = cmp.Or(says.message, c.Message)
			}
		}
		says.message = cmp.Or(says.message, f.Message)
		says.patch = append(says.patch, f.Patch...)
	}
}

// compare returns how effects differ.
func compare(was, is *effect) []Difference {
	var all []Difference
	for ref, now := range is.said {
		before := was.said[ref]
		if before == nil {
			before = &saying{}
		}
		switch {
		case now.fails && !before.fails:
			all = append(all, Difference{Failing, ref, now.message})
		case now.denies && is.denied && !was.denied:
			all = append(all, Difference{Denied, ref, now.message})
		case now.warns && !before.warns && !is.denied:
			all = append(all, Difference{Warned, ref, now.message})
		}
	}
	if was.denied && !is.denied {
		for ref, before := range was.said {
			if before.denies {
				all = append(all, Difference{Allowed, ref, before.message})
			}
		}
	}
	if !was.denied && !is.denied && !reflect.DeepEqual(was.result, is.result) {
		all = append(all, changes(was, is)...)
	}
	return all
}

// changes returns the policies because of which another object comes out.
func changes(was, is *effect) []Difference {
	var all []Difference
	for _, sides := range [][2]*effect{{was, is}, {is, was}} {
		for ref, says := range sides[0].said {
			other := sides[1].said[ref]
			if other == nil {
				other = &saying{}
			}
			known := slices.ContainsFunc(all, func(d Difference) bool { return d.Policy == ref })
			if !known && !reflect.DeepEqual(says.patch, other.patch) {
				all = append(all, Difference{Kind: Changed, Policy: ref, Message: paths(is.said[ref])})
			}
		}
	}
	return all
}

// paths says which fields a policy changes.
func paths(says *saying) string {
	if says == nil || len(says.patch) == 0 {
		return "no longer changes the object"
	}
	var all []string
	for _, op := range says.patch {
		if !slices.Contains(all, op.Path) {
			all = append(all, op.Path)
		}
	}
	const most = 5
	if more := len(all) - most; more > 0 {
		all = append(all[:most], fmt.Sprintf("%d more", more))
	}
	return "changes " + strings.Join(all, ", ")
}

// Package impact compares what two sets of policies do with the same requests: which of them are
// newly denied, allowed, warned of, changed in another way or failing, and of which that is unknown.
package impact

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/door/admission"
	"github.com/usher-dev/usher/internal/audit/judge"
	"github.com/usher-dev/usher/internal/impact/diff"
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
func (c *Comparison) Compare(ctx context.Context, s *Subject) (differences []diff.Difference, concerned bool, err error) {
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
	return diff.Between(was, is), true, nil
}

// Unsure returns, in place of differences, that those of policies that read other objects are not known:
// some of these objects are missing.
func (c *Comparison) Unsure(s *Subject, differences []diff.Difference, missing string) []diff.Difference {
	var all []diff.Difference
	reading := map[usher.PolicyRef]bool{}
	for _, r := range c.concerning(s.Request) {
		if !reading[r.Policy] && r.DependsOn(s.Request.Operation).Any(rule.OnFacts) {
			reading[r.Policy] = true
			all = append(all, diff.Difference{Kind: diff.Unknown, Policy: r.Policy, Message: missing})
		}
	}
	return append(all, slices.DeleteFunc(differences, func(d diff.Difference) bool { return reading[d.Policy] })...)
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
func (s *Subject) unknown(rules []*rule.Rule) []diff.Difference {
	var all []diff.Difference
	for _, r := range rules {
		if why := s.lacks(r); why != "" && !slices.ContainsFunc(all, func(d diff.Difference) bool { return d.Policy == r.Policy }) {
			all = append(all, diff.Difference{Kind: diff.Unknown, Policy: r.Policy, Message: why})
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

// decide has a side decide a request.
func (d *Side) decide(ctx context.Context, s *Subject) (*diff.Effect, error) {
	if s.Admitted {
		r := *s.Request
		r.Phase = usher.Validate
		validation, err := d.Decider.Decide(ctx, &r)
		if err != nil {
			return nil, fmt.Errorf("decide %s: %w", s.From, err)
		}
		return diff.Of(&validation), nil
	}
	result, err := admission.Decide(ctx, d.Decider, s.Request)
	if err != nil {
		return nil, fmt.Errorf("decide %s: %w", s.From, err)
	}
	e := diff.Of(&result.Mutation, &result.Validation)
	if e.Object, err = result.Object.Tree(); err != nil {
		return nil, fmt.Errorf("decode %s: %w", s.From, err)
	}
	return e, nil
}

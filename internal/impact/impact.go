// Package impact compares what two sets of policies do with the same requests: which of them are
// newly denied, allowed, warned of, changed in another way or failing, and of which that is unknown.
package impact

import (
	"context"
	"fmt"
	"slices"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/door/admission"
	"github.com/usher-dev/usher/internal/audit/judge"
	"github.com/usher-dev/usher/internal/audit/result"
	"github.com/usher-dev/usher/internal/impact/diff"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/internal/rule/authz"
)

// A Side is one of the two sets of policies. Rules that the sides share are the same values: the set of
// one is compiled with what the other has compiled.
type Side struct {
	Decider usher.Decider
	Rules   []rule.Rule
	// Authorizer decides requests to authorize, by Access.
	Authorizer usher.Decider
	Access     []*authz.Rule
}

// A Subject is a request that both sides decide.
type Subject struct {
	// Request is one of the mutating phase; nil for what admission does not see.
	Request *usher.Request
	// Again is another request for the same object; nil if there is none.
	Again *usher.Request
	// Question is the request as authorizers decide it; nil if that is not known.
	Question *Question
	// Only are the policies that are compared; nil for all.
	Only []usher.PolicyRef
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
	// HTTP is why services are not asked over HTTP.
	HTTP string
}

// A Difference is one in the decisions about one of the requests of a subject.
type Difference struct {
	diff.Difference

	Request *usher.Request
}

// A Comparison compares two sides. It is safe for concurrent use.
type Comparison struct {
	was, is Side
	// changed are the rules, of both sides, of policies that differ, and access those that authorize.
	changed []changed
	access  []*authz.Rule
	refs    []usher.PolicyRef
}

// New returns a comparison of two sides.
func New(was, is Side) *Comparison {
	c := &Comparison{was: was, is: is}
	_, c.refs = judge.New(was.Rules, judge.Options{}).Update(is.Rules)
	for _, r := range slices.Concat(was.Rules, is.Rules) {
		if slices.Contains(c.refs, r.Policy) {
			c.changed = append(c.changed, changedOf(&r))
		}
	}
	for _, sides := range [][2][]*authz.Rule{{was.Access, is.Access}, {is.Access, was.Access}} {
		for _, r := range sides[0] {
			if slices.Contains(sides[1], r) {
				continue
			}
			c.access = append(c.access, r)
			if !slices.Contains(c.refs, r.Policy.Ref) {
				c.refs = append(c.refs, r.Policy.Ref)
			}
		}
	}
	return c
}

// Policies returns the policies that differ: those that changed, came or are gone.
func (c *Comparison) Policies() []usher.PolicyRef { return c.refs }

// Authorizes reports whether policies differ that authorize requests.
func (c *Comparison) Authorizes() bool { return len(c.access) > 0 }

// Access returns the rules, of both sides, of a policy that differs and authorizes requests; all of them for the zero
// PolicyRef.
func (c *Comparison) Access(of usher.PolicyRef) []*authz.Rule {
	return slices.DeleteFunc(slices.Clone(c.access), func(r *authz.Rule) bool { return of != (usher.PolicyRef{}) && r.Policy.Ref != of })
}

// Excluding returns the policies that differ and are not for some users, who may have written an object
// without a known writer.
func (c *Comparison) Excluding() []usher.PolicyRef {
	var some []usher.PolicyRef
	for i := range c.changed {
		r := &c.changed[i]
		if !slices.Contains(some, r.Policy) && r.on(usher.Create).Any(rule.OnExcluded) {
			some = append(some, r.Policy)
		}
	}
	return some
}

// Concerning returns the policies that differ and may be for creations or updates of objects of a kind.
func (c *Comparison) Concerning(k result.Kind) []usher.PolicyRef {
	var some []usher.PolicyRef
	for i := range c.changed {
		r := &c.changed[i]
		if !slices.Contains(some, r.Policy) && (judge.MayMatch(&r.Match, k, usher.Create) || judge.MayMatch(&r.Match, k, usher.Update)) {
			some = append(some, r.Policy)
		}
	}
	return some
}

// Compare decides a request by both sides and returns the differences, in the order of the kinds. It
// reports whether a policy that differs is for the request at all.
func (c *Comparison) Compare(ctx context.Context, s *Subject) (differences []Difference, concerned bool, err error) {
	if s.Question != nil {
		differences, concerned, err = c.ask(ctx, s.Question)
		if err != nil || slices.ContainsFunc(differences, func(d Difference) bool { return d.Kind == diff.Denied }) {
			return differences, concerned, err
		}
	}
	for _, r := range s.requests() {
		found, is, err := c.decide(ctx, s, r)
		if err != nil {
			return nil, true, err
		}
		concerned = concerned || is
		for _, d := range found {
			if !slices.ContainsFunc(differences, func(o Difference) bool { return o.Kind == d.Kind && o.Policy == d.Policy }) {
				differences = append(differences, Difference{d, r})
			}
		}
	}
	return differences, concerned, nil
}

// requests returns the requests that admission sees.
func (s *Subject) requests() []*usher.Request {
	return slices.DeleteFunc([]*usher.Request{s.Request, s.Again}, func(r *usher.Request) bool { return r == nil })
}

// decide has both sides decide a request.
func (c *Comparison) decide(ctx context.Context, s *Subject, r *usher.Request) (differences []diff.Difference, concerned bool, err error) {
	rules := c.concerning(s, r)
	if len(rules) == 0 {
		return nil, false, nil
	}
	if unknown := s.unknown(r, rules); len(unknown) > 0 {
		return unknown, true, nil
	}
	was, err := c.was.decide(ctx, s, r)
	if err != nil {
		return nil, true, err
	}
	is, err := c.is.decide(ctx, s, r)
	if err != nil {
		return nil, true, err
	}
	return slices.DeleteFunc(diff.Between(was, is), func(d diff.Difference) bool {
		return s.Only != nil && d.Policy != (usher.PolicyRef{}) && !slices.Contains(s.Only, d.Policy)
	}), true, nil
}

// Unsure returns, in place of differences, that those of policies that read other objects are not known: some of these
// objects are missing. Of some policies it is sure nevertheless; missing says what is known of another one.
func (c *Comparison) Unsure(s *Subject, differences []Difference, missing func(usher.PolicyRef) string, sure []usher.PolicyRef) []Difference {
	var all []Difference
	reading := map[usher.PolicyRef]bool{}
	for _, request := range s.requests() {
		for _, r := range c.concerning(s, request) {
			if !reading[r.Policy] && !slices.Contains(sure, r.Policy) && r.on(request.Operation).Any(rule.OnFacts) {
				reading[r.Policy] = true
				all = append(all, Difference{diff.Difference{Kind: diff.Unknown, Policy: r.Policy, Message: missing(r.Policy)}, request})
			}
		}
	}
	return append(all, slices.DeleteFunc(differences, func(d Difference) bool { return reading[d.Policy] })...)
}

// decide has a side decide a request.
func (d *Side) decide(ctx context.Context, s *Subject, r *usher.Request) (*diff.Effect, error) {
	if s.Admitted {
		q := *r
		q.Phase = usher.Validate
		validation, err := d.Decider.Decide(ctx, &q)
		if err != nil {
			return nil, fmt.Errorf("decide %s: %w", s.From, err)
		}
		return diff.Of(&validation), nil
	}
	result, err := admission.Decide(ctx, d.Decider, r)
	if err != nil {
		return nil, fmt.Errorf("decide %s: %w", s.From, err)
	}
	e := diff.Of(&result.Mutation, &result.Validation)
	if e.Object, err = result.Object.Tree(); err != nil {
		return nil, fmt.Errorf("decode %s: %w", s.From, err)
	}
	return e, nil
}

// Package authz decides requests to authorize by rules.
//
//	e := authz.New(index.New(rules), authz.Options{})
//	d, err := e.Decide(ctx, request)
//
// An [Engine] is immutable: when policies change, make a new one. Deciding takes no locks,
// and, when at most one policy decides and no condition is evaluated, allocates nothing.
package authz

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/rule/authz"
)

// A Matcher finds rules. It is safe for concurrent use.
type Matcher interface {
	// Rules returns all rules, in the order of evaluation.
	Rules() []*authz.Rule
	// Matching yields the places in Rules, ascending, of those that match q, until yield
	// returns false.
	Matching(q *authz.Query, yield func(place int32) bool)
}

// Options tune an [Engine]. The zero value works.
type Options struct {
	// ProtectedUsers returns users who are never denied anything, besides those of the function
	// [ProtectedUsers], or with WithoutBuiltin in place of them; nil has none. It is asked for each Deny
	// that matches.
	ProtectedUsers func() []authz.Subject
	WithoutBuiltin bool
	// KillSwitch, if set, tells whether nobody is to be denied anything now: a Deny
	// that matches then has the outcome [usher.WouldDeny]. It is asked for each Deny that matches.
	KillSwitch func() bool
	// Scope tells of resources that are not Kubernetes' own whether they are in namespaces;
	// nil knows none of them. See [authz.QueryOf].
	Scope func(group, resource string) authz.Scope
	// Now is time.Now if nil.
	Now func() time.Time
}

// An Engine is a [usher.Decider] for requests to authorize.
//
// Findings of a decision: Passed is of the policy by which the request was allowed or left
// to others, Rejected of each that denied it, WouldDeny of each that would have, but is
// in Audit mode or matches a protected user. Failed is of a policy one of whose conditions failed; it is
// Ignored if the policy did not match for that, and else counts like the others.
type Engine struct {
	matcher Matcher
	entries []entry
	// conditions are what entries refer to by number: each source is evaluated once a request.
	conditions []authz.Condition
	// protected are the built-in ones.
	protected []authz.Subject
	options   Options
	states    sync.Pool
}

// New returns an engine for the rules of m, which must not change.
func New(m Matcher, o Options) *Engine {
	if o.Now == nil {
		o.Now = time.Now
	}
	e := &Engine{matcher: m, options: o}
	if !o.WithoutBuiltin {
		e.protected = ProtectedUsers()
	}
	e.build(m.Rules())
	e.states.New = func() any { return newState(e) }
	return e
}

// Rules returns all rules in the order of evaluation. They are shared: do not change them.
func (e *Engine) Rules() []*authz.Rule { return e.matcher.Rules() }

var errPhase = errors.New("only requests to authorize are decided by access rules")

// Decide decides a request to authorize. Its findings are shared: do not change them. The
// error is that of ctx if it had ended already, or tells that the request is of another phase.
func (e *Engine) Decide(ctx context.Context, r *usher.Request) (usher.Decision, error) {
	if err := check(ctx, r); err != nil {
		return usher.Decision{}, err
	}
	s := e.states.Get().(*state)
	defer e.states.Put(s)
	return s.decide(ctx, r), nil
}

func check(ctx context.Context, r *usher.Request) error {
	if ctx.Err() != nil {
		return fmt.Errorf("decide request: %w", context.Cause(ctx))
	}
	if r.Phase != usher.Authorize || r.Access == nil {
		return fmt.Errorf("decide request: phase %q: %w", r.Phase, errPhase)
	}
	return nil
}

// Package authz decides authorization requests by rules.
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
	"github.com/usher-dev/usher/internal/overrun"
	"github.com/usher-dev/usher/internal/rule/authz"
)

// A Matcher finds rules. It is safe for concurrent use.
type Matcher interface {
	// Rules returns all rules, in the order of evaluation.
	Rules() []*authz.Rule
	// Matching yields the indices in Rules, ascending, of the rules that match q, until yield
	// returns false.
	Matching(q *authz.Query, yield func(place int32) bool)
}

// Options tune an [Engine]. The zero value works.
type Options struct {
	// ProtectedUsers returns users who are never denied, in addition to those of the function
	// [ProtectedUsers], or with WithoutBuiltin instead of them; nil has none. It is called for each
	// Deny that matches.
	ProtectedUsers func() []authz.Subject
	WithoutBuiltin bool
	// KillSwitch, if set, reports whether all denials are off: a Deny that matches then has the
	// outcome [usher.WouldDeny]. It is called for each Deny that matches.
	KillSwitch func() bool
	// Scope reports whether resources that are not Kubernetes' own are namespaced; nil knows none
	// of them. See [authz.QueryOf].
	Scope func(group, resource string) authz.Scope
	// Now is time.Now if nil.
	Now func() time.Time
	// Overruns runs conditions, and suspends those that do not end; nil means one for the engine alone.
	Overruns *overrun.Watch
}

// An Engine is a [usher.Decider] for authorization requests.
//
// The findings of a decision: Passed is the policy that allows the request or has no opinion;
// Rejected is each policy that denies it; WouldDeny is each that would deny it, but is in Audit
// mode or matches a protected user. Failed is a policy with a condition that failed. It is Ignored
// if the policy therefore did not match; otherwise the policy matched.
type Engine struct {
	// base has the first places and conditions of an engine beside another; nil in others.
	base    *Engine
	matcher Matcher
	entries []entry
	// conditions are the conditions of all entries, which refer to them by index: each source is
	// evaluated once per request.
	conditions []authz.Condition
	// owners are the policies that have the conditions, of several the first.
	owners []usher.PolicyRef
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
	if o.Overruns == nil {
		o.Overruns = overrun.New(overrun.Options{})
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

// Decide decides a request to authorize. Its findings are shared: do not change them. If the deadline of
// ctx passes, conditions that have not ended fail. The error is that of ctx if it is cancelled already, or
// reports that the request is of another phase.
func (e *Engine) Decide(ctx context.Context, r *usher.Request) (usher.Decision, error) {
	if err := check(ctx, r); err != nil {
		return usher.Decision{}, err
	}
	s := e.states.Get().(*state)
	s.round++
	if d, decided := s.quick(ctx, r); decided {
		e.states.Put(s)
		return d, nil
	}
	d, ended := inTime(ctx, r, s, func(s *state) usher.Decision { return s.decide(ctx, r) })
	if ended {
		e.states.Put(s)
	}
	return d, nil
}

func check(ctx context.Context, r *usher.Request) error {
	if ctx.Err() != nil && !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("decide request: %w", context.Cause(ctx))
	}
	if r.Phase != usher.Authorize || r.Access == nil {
		return fmt.Errorf("decide request: phase %q: %w", r.Phase, errPhase)
	}
	return nil
}

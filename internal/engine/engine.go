// Package engine runs the rules that match a request and combines their outcomes into one decision.
// It resolves the facts that programs need, and isolates programs that fail, panic or time out.
//
// A program is Go code: one that ignores its context cannot be interrupted. With [Options.Overruns] rules
// run on a goroutine that is left behind if one of them does not end: the decision is made without it, in
// time.
package engine

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/overrun"
	"github.com/usher-dev/usher/internal/rule"
)

// A Matcher finds rules. It is safe for concurrent use.
type Matcher interface {
	// Matching appends to dst the rules of a pass that match s, in evaluation order.
	Matching(dst []*rule.Rule, phase usher.Phase, pass int, s *rule.Target) []*rule.Rule
	// Passes returns the passes of a phase that have rules, in ascending order.
	Passes(phase usher.Phase) []int
}

// A kindFilter is a [Matcher] that can tell by the kind alone that no rule matches an object, which
// then need not be decoded.
type kindFilter interface {
	MayMatch(r *usher.Request) bool
}

// A pathReader is a [Matcher] that returns the paths that it reads in objects of a kind.
type pathReader interface {
	ReadPaths(r *usher.Request) *usher.Paths
}

// Options tune an [Engine]. The zero value works.
type Options struct {
	// FailurePolicy is that of rules that have none; it is Fail unless set.
	FailurePolicy usher.FailurePolicy
	// RuleTimeout limits the run time of the programs of one rule for one request, without the time
	// to resolve facts, which the request's timeout limits. 0 means one second.
	RuleTimeout time.Duration
	// MaxFacts limits the facts that one rule may use in one request; 0 means 16.
	MaxFacts int
	// Now tells the time at which exemptions are judged; nil means [time.Now].
	Now func() time.Time
	// Overruns runs programs on goroutines that are left behind when they do not end, and suspends such
	// programs. With nil they run on the goroutine of the caller, which saves a microsecond or two, and waits
	// for a program that ignores its context. [live.Live] always has one.
	Overruns *overrun.Watch
	// Ran, unless nil, is told of each rule that ran, with its finding and when it began, on the goroutine of
	// the rule. The finding is only valid during the call.
	Ran func(ctx context.Context, f *usher.Finding, began time.Time)
}

// An Engine is a [usher.Decider] that decides by rules. It takes no locks, but requests wait for each
// other while existing objects are inspected.
type Engine struct {
	matcher  Matcher
	kinds    kindFilter // nil if the matcher is none
	paths    pathReader // nil if the matcher is none
	resolver fact.Resolver
	options  Options
	passes   map[usher.Phase][]int
	pods     pods
	joins    *joins
	// inspections has the requests for which existing objects are inspected.
	inspections chan struct{}
	// inline says that programs run on the goroutine of the caller.
	inline bool
	// attempts has attempts to be used again.
	attempts sync.Pool
}

// New returns an engine for the rules of m, which must not change. If facts is nil, a rule that
// needs a fact fails.
func New(m Matcher, facts fact.Resolver, o Options) *Engine {
	if o.FailurePolicy == "" {
		o.FailurePolicy = usher.Fail
	}
	if o.RuleTimeout <= 0 {
		o.RuleTimeout = time.Second
	}
	if o.MaxFacts <= 0 {
		o.MaxFacts = 16
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	inline := o.Overruns == nil
	if inline {
		o.Overruns = overrun.New(overrun.Options{})
	}
	if facts == nil {
		facts = fact.ResolverFunc(noFacts)
	}
	e := &Engine{matcher: m, resolver: facts, options: o, passes: map[usher.Phase][]int{}, joins: newJoins(), inspections: make(chan struct{}, maxInspected)}
	e.attempts.New = func() any { return &attempt{} }
	e.inline = inline
	e.kinds, _ = m.(kindFilter)
	e.paths, _ = m.(pathReader)
	for _, phase := range []usher.Phase{usher.Mutate, usher.Validate} {
		e.passes[phase] = m.Passes(phase)
	}
	e.pods = e.podsInForce()
	return e
}

// Decide decides the request by the rules that match it.
//
// If the deadline of ctx passes, rules that have not ended fail, and their failure policies decide. The
// error is that of ctx if it was cancelled, or if the object could not be decoded before the deadline,
// except for mutation on Delete, which has no effect. Errors in a rule or in the request are part of the decision: a failed rule
// is a finding, and an object that is not JSON is denied with code 400, unless no rule reads it.
//
// For an authorization request it has no opinion: see internal/engine/authz.
func (e *Engine) Decide(ctx context.Context, r *usher.Request) (usher.Decision, error) {
	return e.decide(ctx, r, nil)
}

// Each decides the request, and calls f with each finding in place of a decision that has them all.
// The finding is only valid during the call. What else a decision says is left out. The error is as
// that of Decide, or that of an object that cannot be decoded.
func (e *Engine) Each(ctx context.Context, r *usher.Request, f func(*usher.Finding)) error {
	if _, err := r.Target().Part(&usher.Paths{}); err != nil {
		return err
	}
	_, err := e.decide(ctx, r, f)
	return err
}

// decide decides the request. Unless it is nil, each gets the findings.
func (e *Engine) decide(ctx context.Context, r *usher.Request, each func(*usher.Finding)) (usher.Decision, error) {
	if ctx.Err() != nil && !overdue(ctx) {
		if r.Phase == usher.Mutate && r.Operation == usher.Delete {
			return usher.Allowed(), nil
		}
		return usher.Decision{}, fmt.Errorf("decide request: %w", context.Cause(ctx))
	}
	switch r.Phase {
	case usher.Mutate, usher.Validate:
	case usher.Authorize:
		return usher.Decision{}, nil
	default:
		return usher.Decision{}, fmt.Errorf("decide request: rules do not know the phase %q", r.Phase)
	}
	passes := e.passes[r.Phase]
	if len(passes) == 0 || !e.mayMatch(r) {
		return usher.Allowed(), nil
	}
	return e.attempt(ctx, r, passes, each)
}

// readPaths returns the paths that the matcher reads in the object of a request.
func (e *Engine) readPaths(r *usher.Request) *usher.Paths {
	if e.paths == nil {
		return usher.AllPaths()
	}
	return e.paths.ReadPaths(r)
}

// mayMatch reports whether the object has to be decoded. The kind of a request is that of its
// object.
func (e *Engine) mayMatch(r *usher.Request) bool {
	return e.kinds == nil || r.Kind.Version == "" || r.Kind.Kind == "" ||
		e.kinds.MayMatch(r)
}

// undecodable denies an object that cannot be decoded, but never a deletion in the mutating phase,
// which has no effect. If the request has timed out, decoding was interrupted, and the object may
// be valid.
func undecodable(ctx context.Context, r *usher.Request, err error) (usher.Decision, error) {
	if r.Phase == usher.Mutate && r.Operation == usher.Delete {
		return usher.Allowed(), nil
	}
	if ctx.Err() != nil {
		return usher.Decision{}, fmt.Errorf("decide request: %w", context.Cause(ctx))
	}
	d := usher.Denied("%v", err)
	d.Code = http.StatusBadRequest
	return d, nil
}

func noFacts(context.Context, fact.Ref) (any, error) {
	return nil, errNoResolver
}

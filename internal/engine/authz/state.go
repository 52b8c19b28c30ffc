package authz

import (
	"context"
	"fmt"
	"slices"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/overrun"
	"github.com/usher-dev/usher/internal/rule/authz"
)

// most limits the findings of a decision.
const most = 32

// A state is the working memory of one decision. It is reused.
type state struct {
	// shares are those of the namespaces whose conditions were evaluated.
	shares overrun.Shares
	engine *Engine
	query  authz.Query
	// memo has an entry for every condition; those of other rounds, which are other requests, are invalid.
	memo  []memo
	round uint64
	// last is the policy that was found to apply last, decisive the first entry that decides,
	// -1 if there is none. Findings are nil as long as the one of that entry is all that
	// there is to say.
	last     *authz.Policy
	decisive int32
	findings []usher.Finding

	// visit is the method of that name with the request's context.
	visit func(place int32) bool
	ctx   context.Context

	// unevaluated says that no condition is evaluated: the first one ends the decision, which pends then.
	unevaluated, pends bool
	run
}

func newState(e *Engine) *state {
	s := &state{engine: e, memo: make([]memo, e.numbered()+len(e.conditions)), round: 1}
	s.visit = func(place int32) bool { return s.take(s.ctx, place) }
	return s
}

// A memo is the cached result of a condition.
type memo struct {
	round uint64
	holds bool
	err   error
}

func (s *state) begin(ctx context.Context, r *usher.Request) {
	s.ctx, s.last, s.decisive, s.findings = ctx, nil, -1, nil
	s.query = authz.QueryOf(r, s.engine.options.Scope)
	s.shares = overrun.Shares{}
}

// decide evaluates the rules that match: by tier, and within a tier Deny before NoOpinion before
// Allow. The first policy that applies decides, unless it is not enforced. Others of the same tier
// and effect are reported with it; for Allow, one is enough.
func (s *state) decide(ctx context.Context, r *usher.Request) usher.Decision {
	s.begin(ctx, r)
	s.engine.matcher.Matching(&s.query, s.visit)
	return s.decision()
}

// quick is decide without conditions. It reports whether it needs none.
func (s *state) quick(ctx context.Context, r *usher.Request) (usher.Decision, bool) {
	s.unevaluated = true
	d := s.decide(ctx, r)
	pends := s.pends
	s.unevaluated, s.pends = false, false
	return d, !pends
}

// take evaluates one rule that matches. It reports whether to continue.
func (s *state) take(ctx context.Context, place int32) bool {
	entry := s.engine.entry(place)
	if s.decisive >= 0 {
		by := s.engine.entry(s.decisive).Policy
		if entry.Policy.Tier != by.Tier || entry.Policy.Effect != by.Effect {
			return false
		}
	}
	if entry.Policy != s.last && s.weigh(ctx, place, entry) {
		s.last = entry.Policy
	}
	if s.pends {
		return false
	}
	return s.decisive < 0 || s.engine.entry(s.decisive).Policy.Effect != authz.Allow && len(s.findings) < most
}

// weigh reports whether the policy of an entry applies. If so, its other rules add nothing.
func (s *state) weigh(ctx context.Context, place int32, entry *entry) bool {
	applies, err := s.applies(ctx, entry)
	if err != nil && !applies {
		s.add(failed(entry, err, true))
	}
	if !applies {
		return false
	}
	if why := s.engine.unenforced(entry.Policy, &s.query); why != "" {
		s.add(wouldDeny(entry, why))
		return true
	}
	finding := entry.decision.Findings[0]
	if err != nil {
		finding = failed(entry, err, false)
	}
	if s.decisive < 0 {
		s.decisive = place
		if err == nil && s.findings == nil {
			return true
		}
	} else if s.findings == nil {
		s.findings = slices.Clone(s.engine.entry(s.decisive).decision.Findings)
	}
	s.add(finding)
	return true
}

func (s *state) add(f usher.Finding) {
	if len(s.findings) < most {
		s.findings = append(s.findings, f)
	}
}

func (s *state) decision() usher.Decision {
	var d usher.Decision
	if s.decisive >= 0 {
		d = s.engine.entry(s.decisive).decision
	}
	if s.findings != nil {
		d.Findings = s.findings
	}
	// The findings belong to the decision now.
	s.findings, s.ctx, s.query = nil, nil, authz.Query{}
	return d
}

// applies reports whether the policy of an entry that matches is in force for the request. On
// error, the policy says whether it matches.
func (s *state) applies(ctx context.Context, e *entry) (bool, error) {
	if s.engine.ended(e.Policy) {
		return false, nil
	}
	if !e.Policy.Selects(&s.query) {
		return false, nil
	}
	return s.conditions(ctx, e)
}

// conditions evaluates when and unless. A condition that is not met takes precedence over one that
// fails, in any order.
func (s *state) conditions(ctx context.Context, e *entry) (bool, error) {
	var failure error
	for _, n := range e.when {
		holds, err := s.holds(ctx, n)
		if err != nil && failure == nil {
			failure = err
		}
		if err == nil && !holds {
			return false, nil
		}
	}
	for _, n := range e.unless {
		holds, err := s.holds(ctx, n)
		if err != nil && failure == nil {
			failure = err
		}
		if err == nil && holds {
			return false, nil
		}
	}
	return failure == nil || !e.Policy.SkipErrors, failure
}

// holds evaluates a condition, once per request.
func (s *state) holds(ctx context.Context, n int32) (bool, error) {
	m := &s.memo[n]
	switch {
	case m.round == s.round:
	case s.unevaluated:
		s.pends = true
		return false, nil
	default:
		holds, err := s.evaluate(ctx, n)
		if err != nil {
			c, _ := s.engine.condition(n)
			holds, err = false, fmt.Errorf("evaluate %s: %w", c.Source, err)
		}
		s.lock()
		*m = memo{s.round, holds, err}
		s.mu.Unlock()
	}
	return m.holds, m.err
}

// ended reports whether a policy has expired.
func (e *Engine) ended(p *authz.Policy) bool {
	return !p.Until.IsZero() && !e.options.Now().Before(p.Until)
}

// unenforced returns why a policy that applies to q has no effect, "" if it has one.
func (e *Engine) unenforced(p *authz.Policy, q *authz.Query) string {
	o := &e.options
	switch {
	case p.Audit:
		return "its enforcement is Audit"
	case p.Effect != authz.Deny:
		return ""
	case !p.Confirm.IsZero() && !o.Now().Before(p.Confirm):
		return "in Audit mode: it was not confirmed within confirmWithin"
	case e.protects(q):
		return "the user is protected"
	case o.KillSwitch != nil && o.KillSwitch():
		return "the kill switch is on"
	}
	return ""
}

// wouldDeny is the finding of a policy that would deny the request.
func wouldDeny(e *entry, why string) usher.Finding {
	f := e.decision.Findings[0]
	f.Ignored = true
	if e.Policy.Effect == authz.Deny {
		f.Outcome = usher.WouldDeny
	}
	f.Message = why
	return f
}

func failed(e *entry, err error, ignored bool) usher.Finding {
	f := e.decision.Findings[0]
	f.Outcome, f.Err, f.Ignored = usher.Failed, err, ignored
	return f
}

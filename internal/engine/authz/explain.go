package authz

import (
	"context"
	"slices"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/rule/authz"
)

// An Outcome is what a rule that matches a request contributed to the decision.
type Outcome string

// The outcomes.
const (
	// Decides: the decision is by this rule, alone or with others.
	Decides Outcome = "decides"
	// NotEnforced: the rule would decide, but its policy is in Audit mode, the user is
	// protected, or the kill switch is on.
	NotEnforced Outcome = "not enforced"
	// Overruled: an earlier tier has decided, or a stronger effect of the same tier.
	Overruled Outcome = "overruled"
	// Unselected: the selectors of the request do not require what the policy needs, or they
	// require what lifts it.
	Unselected Outcome = "unselected"
	// Unmet: a condition does not hold, or one that must not does.
	Unmet Outcome = "unmet"
	// Skipped: a condition failed, and the policy does not match then.
	Skipped Outcome = "skipped"
	// Ended: the policy is not valid any more.
	Ended Outcome = "ended"
)

// A Step is a rule that matches a request, and its outcome.
type Step struct {
	Rule    *authz.Rule
	Outcome Outcome
	// Why has details, such as how the request exceeds what the rule names, or which condition is
	// not met. It may be empty.
	Why string
	// Evaluated are the conditions that were evaluated.
	Evaluated []Evaluated
}

// Evaluated is the result of a condition.
type Evaluated struct {
	Condition authz.Condition
	Holds     bool
	Err       error
}

// A NearMatch is a rule that fails to match in one clause.
type NearMatch struct {
	Rule     *authz.Rule
	Mismatch string
}

// An Explanation is a decision and its reasons.
type Explanation struct {
	// Decision is that of Decide, except that all policies that allow a request have findings.
	Decision usher.Decision
	// Steps are the rules that match, in the order of evaluation.
	Steps []Step
	// NearMatches are rules that nearly match, in the order of evaluation.
	NearMatches []NearMatch
}

// Explain decides a request like Decide, and explains the decision. It evaluates every rule: it is
// for people, not for the request path.
func (e *Engine) Explain(ctx context.Context, r *usher.Request) (Explanation, error) {
	if err := check(ctx, r); err != nil {
		return Explanation{}, err
	}
	x, _ := inTime(ctx, r, newState(e), func(s *state) Explanation { return s.explain(ctx, r) })
	return x, nil
}

func (s *state) explain(ctx context.Context, r *usher.Request) Explanation {
	s.begin(ctx, r)
	var x Explanation
	var places []int32
	s.engine.matcher.Matching(&s.query, func(place int32) bool {
		places = append(places, place)
		return true
	})
	for _, place := range places {
		x.Steps = append(x.Steps, s.step(ctx, place))
	}
	s.nearMatches(&x, places)
	x.Decision = s.decision()
	return x
}

// step determines the outcome of a rule, and adds it to the decision.
func (s *state) step(ctx context.Context, place int32) Step {
	entry := s.engine.entry(place)
	step := Step{Rule: entry.Rule, Why: entry.Overlap(&s.query)}
	applies, err := s.applies(ctx, entry)
	step.Evaluated = s.evaluated(entry)
	overruled := false
	if s.decisive >= 0 {
		by := s.engine.entry(s.decisive).Policy
		overruled = entry.Policy.Tier != by.Tier || entry.Policy.Effect != by.Effect
	}
	why := s.engine.unenforced(entry.Policy, &s.query)
	switch {
	case !applies:
		step.Outcome, step.Why = s.outcome(entry, err)
		if err != nil && !overruled {
			s.add(failed(entry, err, true))
		}
	case overruled:
		step.Outcome, step.Why = Overruled, "by "+s.engine.entry(s.decisive).Policy.Place()
	case why != "":
		step.Outcome, step.Why = NotEnforced, why
		s.once(ctx, place, entry)
	default:
		step.Outcome = Decides
		s.once(ctx, place, entry)
	}
	return step
}

// once weighs the policy of an entry, unless another of its rules did so already.
func (s *state) once(ctx context.Context, place int32, entry *entry) {
	if entry.Policy != s.last && s.weigh(ctx, place, entry) {
		s.last = entry.Policy
	}
}

// outcome is the reason why the policy of an entry does not apply.
func (s *state) outcome(e *entry, err error) (Outcome, string) {
	switch {
	case err != nil:
		return Skipped, err.Error()
	case s.engine.ended(e.Policy):
		return Ended, "since " + e.Policy.Until.UTC().Format("2006-01-02T15:04:05Z")
	case !e.Policy.Selects(&s.query):
		return Unselected, "selectors: " + wanted(e.Policy)
	}
	for _, v := range s.evaluated(e) {
		if inWhen := slices.ContainsFunc(e.Policy.When, func(c authz.Condition) bool { return c.Source == v.Condition.Source }); v.Err == nil && v.Holds != inWhen {
			return Unmet, map[bool]string{true: "when ", false: "unless "}[inWhen] + v.Condition.Name
		}
	}
	return Unmet, ""
}

func wanted(p *authz.Policy) string {
	text := ""
	for _, r := range slices.Concat(p.Labels, p.Fields) {
		if text != "" {
			text += ", "
		}
		text += r.String()
	}
	return text
}

// evaluated are the conditions of an entry that have been evaluated for this request.
func (s *state) evaluated(e *entry) []Evaluated {
	var all []Evaluated
	collect := func(conditions []authz.Condition, numbers []int32) {
		for i, n := range numbers {
			if m := s.memo[n]; m.round == s.round {
				all = append(all, Evaluated{Condition: conditions[i], Holds: m.holds, Err: m.err})
			}
		}
	}
	collect(e.Policy.When, e.when)
	collect(e.Policy.Unless, e.unless)
	return all
}

// nearMatches finds the rules that fail to match in one clause.
func (s *state) nearMatches(x *Explanation, matching []int32) {
	for i := range s.engine.entries {
		if _, found := slices.BinarySearch(matching, int32(i)); found {
			continue
		}
		entry := &s.engine.entries[i]
		if misses := entry.Mismatches(&s.query); len(misses) == 1 && (entry.URLs != nil) == s.query.NonResource {
			x.NearMatches = append(x.NearMatches, NearMatch{Rule: entry.Rule, Mismatch: misses[0]})
		}
	}
}

package policytest

import (
	"context"
	"fmt"
	"slices"

	engine "github.com/usher-dev/usher/internal/engine/authz"
	"github.com/usher-dev/usher/internal/rule/authz"
)

// A Coverage is what cases exercise of a suite of authorization policies, or of another policy.
type Coverage struct {
	Set  string `json:"set"`
	File string `json:"file"`
	// Policies and Rules are exercised by a case that they decide, or would decide in Audit mode;
	// Conditions by a case in which they hold and one in which they do not. Of other policies, rules
	// are exercised by a case that they change or reject, and the condition of a rule that validates
	// by a case that it rejects and one that it lets pass.
	Policies   Share `json:"policies"`
	Rules      Share `json:"rules"`
	Conditions Share `json:"conditions"`
	// Missing is what is not exercised, one line each.
	Missing []string `json:"missing,omitempty"`
}

// A Share is a count out of a total.
type Share struct {
	Exercised int `json:"exercised"`
	Total     int `json:"total"`
}

func (s *Share) count(exercised bool) {
	s.Total++
	if exercised {
		s.Exercised++
	}
}

// Cover returns what tests exercise of their policies: of each suite of authorization policies, and
// of each other policy.
func Cover(ctx context.Context, tests []Test) ([]Coverage, error) {
	var all []Coverage
	for _, s := range suites(tests) {
		seen := &exercise{policies: map[*authz.Policy]bool{}, rules: map[*authz.Rule]bool{}, outcomes: map[outcome]bool{}}
		for i := range s.Cases {
			if s.Cases[i].Skip != "" {
				continue
			}
			x, err := s.stage.engine.Explain(ctx, s.Cases[i].Request())
			if err != nil {
				return nil, fmt.Errorf("cover %s: %w", s.name(), err)
			}
			seen.note(x)
		}
		all = append(all, seen.coverage(s))
	}
	for _, s := range subjects(ctx, tests) {
		if s.compiled.Binding != nil {
			// Its rule is one of the policy that it binds.
			continue
		}
		coverage, err := s.cover(ctx)
		if err != nil {
			return nil, err
		}
		all = append(all, coverage)
	}
	return all, nil
}

// suites are those that tests are of, each once.
func suites(tests []Test) []*AccessSuite {
	var all []*AccessSuite
	for _, t := range tests {
		if t.suite != nil && !slices.Contains(all, t.suite) {
			all = append(all, t.suite)
		}
	}
	return all
}

// An exercise is what cases have exercised.
type exercise struct {
	policies map[*authz.Policy]bool
	rules    map[*authz.Rule]bool
	outcomes map[outcome]bool
}

// An outcome is that a condition of a policy came to something.
type outcome struct {
	policy *authz.Policy
	source string
	holds  bool
}

func (e *exercise) note(x engine.Explanation) {
	for _, step := range x.Steps {
		if step.Outcome == engine.Decides || step.Outcome == engine.NotEnforced {
			e.policies[step.Rule.Policy], e.rules[step.Rule] = true, true
		}
		for _, v := range step.Evaluated {
			if v.Err == nil {
				e.outcomes[outcome{step.Rule.Policy, v.Condition.Source, v.Holds}] = true
			}
		}
	}
}

func (e *exercise) coverage(s *AccessSuite) Coverage {
	c := Coverage{Set: s.name(), File: s.file}
	miss := func(what string, args ...any) { c.Missing = append(c.Missing, fmt.Sprintf(what, args...)) }
	counted := map[*authz.Policy]bool{}
	for _, r := range s.stage.rules {
		p := r.Policy
		if !counted[p] {
			counted[p] = true
			c.Policies.count(e.policies[p])
			if !e.policies[p] {
				miss("%s: decides no case", p.Ref)
			}
			e.conditions(p, &c, miss)
		}
		c.Rules.count(e.rules[r])
		if !e.rules[r] && e.policies[p] {
			miss("%s %s: decides no case", p.Ref, r.Name)
		}
	}
	return c
}

func (e *exercise) conditions(p *authz.Policy, c *Coverage, miss func(string, ...any)) {
	for _, condition := range slices.Concat(p.When, p.Unless) {
		holds, fails := e.outcomes[outcome{p, condition.Source, true}], e.outcomes[outcome{p, condition.Source, false}]
		c.Conditions.count(holds && fails)
		switch {
		case !holds && !fails:
			miss("%s %s: is never evaluated", p.Ref, condition.Name)
		case !holds:
			miss("%s %s: never holds", p.Ref, condition.Name)
		case !fails:
			miss("%s %s: always holds", p.Ref, condition.Name)
		}
	}
}

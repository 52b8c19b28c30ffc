package policytest

import (
	"context"
	"fmt"
	"slices"

	"github.com/usher-dev/usher/internal/rule/authz"
)

// Mutants are the results of mutating authorization policies.
type Mutants struct {
	// Total is how many there were.
	Total int `json:"total"`
	// Survivors are those that no case noticed.
	Survivors []Survivor `json:"survivors,omitempty"`
}

// A Survivor is a part of a policy that can be left out, or be another one, without a case that
// fails.
type Survivor struct {
	Set  string `json:"set"`
	File string `json:"file"`
	// Without names the part; empty if With says what was there instead of it.
	Without string `json:"without,omitempty"`
	With    string `json:"with,omitempty"`
}

// Mutate leaves out one part after the other of the policies that tests are about. Of
// authorization policies these are policies, rules, conditions, excluded subjects and selectors; of
// others, policies, rules, operations, clauses of selectors, what templates and plaintext set, and
// conditions, also those of CUE. The expressions of admission policies of Kubernetes also get other
// operators and constants. A case should fail each time; otherwise none tests that part. Tried is
// called after each mutant, concurrently, with about how many there are: some of these are no policies.
func Mutate(ctx context.Context, tests []Test, tried func(about int)) (Mutants, error) {
	var result Mutants
	policies := subjects(ctx, tests)
	about, err := countMutants(tests, policies)
	if err != nil {
		return Mutants{}, err
	}
	for _, s := range suites(tests) {
		for _, m := range mutants(s.stage.rules) {
			result.Total++
			noticed := s.notices(ctx, m.rules)
			tried(about)
			if !noticed {
				result.Survivors = append(result.Survivors, Survivor{Set: s.name(), File: s.file, Without: m.without})
			}
		}
	}
	for _, s := range policies {
		mutants, err := s.mutate(ctx, func() { tried(about) })
		if err != nil {
			return Mutants{}, err
		}
		result.Total += mutants.Total
		result.Survivors = append(result.Survivors, mutants.Survivors...)
	}
	return result, context.Cause(ctx)
}

// countMutants returns how many mutants there are at most.
func countMutants(tests []Test, policies []*subject) (int, error) {
	n := 0
	for _, s := range suites(tests) {
		n += len(mutants(s.stage.rules))
	}
	for _, s := range policies {
		of, err := policyMutants(s.policy)
		if err != nil {
			return 0, fmt.Errorf("mutate %s: %w", s.compiled.Ref, err)
		}
		n += len(of)
	}
	return n, nil
}

// notices reports whether a case fails with these rules.
func (s *AccessSuite) notices(ctx context.Context, rules []*authz.Rule) bool {
	stage := s.stage.with(rules)
	return slices.ContainsFunc(s.Cases, func(c AccessCase) bool {
		return c.Skip == "" && len(stage.faults(ctx, &c)) > 0
	})
}

// A mutant is rules from which one part was left out.
type mutant struct {
	without string
	rules   []*authz.Rule
}

func mutants(rules []*authz.Rule) []mutant {
	var all []mutant
	for i, r := range rules {
		first := i == 0 || rules[i-1].Policy != r.Policy
		single := i+1 == len(rules) || rules[i+1].Policy != r.Policy
		if first {
			all = append(all, mutant{r.Policy.Ref.String(), slices.DeleteFunc(slices.Clone(rules), func(o *authz.Rule) bool { return o.Policy == r.Policy })})
			all = append(all, partial(rules, r.Policy)...)
		}
		if !first || !single {
			all = append(all, mutant{r.Policy.Ref.String() + " " + r.Name, slices.Delete(slices.Clone(rules), i, i+1)})
		}
	}
	return all
}

// partial are the mutants with a part of policy p left out that is not a rule.
func partial(rules []*authz.Rule, p *authz.Policy) []mutant {
	var all []mutant
	leave := func(what string, change func(*authz.Policy)) {
		changed := *p
		change(&changed)
		all = append(all, mutant{p.Ref.String() + " " + what, replaced(rules, p, &changed)})
	}
	for i, c := range p.When {
		leave(c.Name, func(p *authz.Policy) { p.When = slices.Delete(slices.Clone(p.When), i, i+1) })
	}
	for i, c := range p.Unless {
		leave(c.Name, func(p *authz.Policy) { p.Unless = slices.Delete(slices.Clone(p.Unless), i, i+1) })
	}
	for i := range p.Excluded {
		leave(fmt.Sprintf("spec.excludeSubjects[%d]", i), func(p *authz.Policy) { p.Excluded = slices.Delete(slices.Clone(p.Excluded), i, i+1) })
	}
	for i := range p.Labels {
		leave(fmt.Sprintf("spec.selectors.labels[%d]", i), func(p *authz.Policy) { p.Labels = slices.Delete(slices.Clone(p.Labels), i, i+1) })
	}
	for i := range p.Fields {
		leave(fmt.Sprintf("spec.selectors.fields[%d]", i), func(p *authz.Policy) { p.Fields = slices.Delete(slices.Clone(p.Fields), i, i+1) })
	}
	return all
}

// replaced are rules with policy p changed.
func replaced(rules []*authz.Rule, p, changed *authz.Policy) []*authz.Rule {
	all := slices.Clone(rules)
	for i, r := range all {
		if r.Policy == p {
			copied := *r
			copied.Policy = changed
			all[i] = &copied
		}
	}
	return all
}

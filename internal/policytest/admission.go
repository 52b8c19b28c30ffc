package policytest

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/api/kcloudlabs/v1alpha1"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/internal/stall"
)

// A subject is an admission policy, of any kind, with the cases that are about it.
type subject struct {
	policy   map[string]any
	key      string
	file     string
	compiled compile.Compiled
	cases    []*Case
}

// subjects are the policies of admission cases, in the order of the cases. Policies that do not
// compile are left out: their cases fail, or are about that.
func subjects(ctx context.Context, tests []Test) []*subject {
	var all []*subject
	byKey := map[string]*subject{}
	for _, t := range tests {
		c := t.admission
		if c == nil || c.Skip != "" {
			continue
		}
		for i, policy := range c.Policies {
			key := jsonOf(policy)
			s, known := byKey[key]
			if !known {
				if s = newSubject(ctx, c, i, key); s != nil {
					all = append(all, s)
				}
				byKey[key] = s
			}
			if s != nil && (len(s.cases) == 0 || s.cases[len(s.cases)-1] != c) {
				s.cases = append(s.cases, c)
			}
		}
	}
	return all
}

// newSubject returns the policy with an index in a case; nil if it does not compile.
func newSubject(ctx context.Context, c *Case, i int, key string) *subject {
	s := &subject{policy: c.Policies[i], key: key, file: c.File}
	if first := len(c.Policies) - len(c.files); i >= first {
		s.file = filepath.Join(filepath.Dir(c.File), c.files[i-first])
	}
	var ok bool
	if s.compiled, ok = c.compiled(ctx, s.policy); !ok {
		return nil
	}
	return s
}

// compiled compiles a policy within the limits of the case; false if it has errors, or takes too long.
func (c *Case) compiled(ctx context.Context, policy map[string]any) (compile.Compiled, bool) {
	encoded, err := json.Marshal(policy)
	if err != nil {
		return compile.Compiled{}, false
	}
	decoded, err := api.Decode(encoded)
	if err != nil {
		return compile.Compiled{}, false
	}
	compiled, err := stall.Within(ctx, c.timeout, func(ctx context.Context) (compile.Compiled, error) {
		return compile.Options{Limits: c.Limits}.Policy(ctx, decoded), nil
	})
	return compiled, err == nil && len(rule.Errors(compiled.Problems)) == 0
}

// mutate leaves out one part of the policy after the other.
func (s *subject) mutate(ctx context.Context, tried func()) (Mutants, error) {
	mutants, err := policyMutants(s.policy)
	if err != nil {
		return Mutants{}, fmt.Errorf("mutate %s: %w", s.compiled.Ref, err)
	}
	noticed := make([]bool, len(mutants))
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i, m := range mutants {
		shared := newMemo()
		if m.policy != nil {
			c, ok := s.cases[0].compiled(ctx, m.policy)
			if !ok || !slices.ContainsFunc(s.cases, func(c *Case) bool { return !c.hides(s.policy, m.policy) }) {
				// Nobody can write it, or it is about what all cases replace.
				mutants[i].without, mutants[i].with = "", ""
				continue
			}
			s.keep(shared, c, m.policy)
		}
		group.Go(func() error {
			noticed[i] = s.notices(ctx, m, shared)
			tried()
			return nil
		})
	}
	_ = group.Wait()
	var result Mutants
	for i, m := range mutants {
		if m.without == "" && m.with == "" || !noticed[i] && equivalent(s.policy, m.policy) {
			continue
		}
		result.Total++
		if !noticed[i] {
			result.Survivors = append(result.Survivors, Survivor{Set: s.compiled.Ref.String(), File: s.file, Without: m.without, With: m.with})
		}
	}
	return result, nil
}

// keep adds a mutant, which was compiled to see whether it does. Policies of kinitiras are stored in
// another form than they are written.
func (s *subject) keep(shared *memo, c compile.Compiled, mutant map[string]any) {
	document, err := json.Marshal(mutant)
	if version, _ := mutant["apiVersion"].(string); err != nil || strings.HasPrefix(version, v1alpha1.GroupVersion.Group) {
		return
	}
	entry := shared.entry(keyOf(compile.Options{Limits: s.cases[0].Limits}, document, s.cases[0].renders()))
	entry.once.Do(func() { entry.compiled = c })
}

// notices reports whether the answer of a case is another one with the mutant.
func (s *subject) notices(ctx context.Context, m policyMutant, shared *memo) bool {
	return slices.ContainsFunc(s.cases, func(c *Case) bool {
		changed := s.with(c, m.policy)
		changed.memo = shared
		ctx, cancel := context.WithTimeout(ctx, caseTimeout)
		defer cancel()
		return len(recovered(ctx, changed.timeout, changed.wrongAnswers)) > 0
	})
}

// with returns a case with another policy in place of s; nil is none.
func (s *subject) with(c *Case, policy map[string]any) *Case {
	changed := *c
	changed.Policies = nil
	for _, p := range c.Policies {
		switch {
		case jsonOf(p) != s.key:
			changed.Policies = append(changed.Policies, p)
		case policy != nil:
			changed.Policies = append(changed.Policies, policy)
		}
	}
	return &changed
}

// cover tells which rules of the policy do something in a case, and which of those that validate
// also let a request pass.
func (s *subject) cover(ctx context.Context) (Coverage, error) {
	seen := map[string]map[usher.Outcome]bool{}
	parts := newParts(s.policy)
	for _, c := range s.cases {
		decision, err := c.Decide(ctx)
		if err != nil {
			return Coverage{}, fmt.Errorf("cover %s: case %s: %w", s.compiled.Ref, c.Name, err)
		}
		for _, f := range decision.Findings {
			if f.Policy != s.compiled.Ref {
				continue
			}
			parts.note(&f)
			if seen[f.Rule] == nil {
				seen[f.Rule] = map[usher.Outcome]bool{}
			}
			outcome := f.Outcome
			if outcome == usher.Passed && len(f.Checks) > 0 {
				// A binding that only warns or audits rejects nothing.
				outcome = usher.Rejected
			}
			seen[f.Rule][outcome] = true
		}
	}
	coverage := Coverage{Set: s.compiled.Ref.String(), File: s.file}
	counted := map[string]bool{}
	spec, _ := s.policy["spec"].(map[string]any)
	for _, r := range s.rules(ctx) {
		if r.Pod != nil && spec["podTemplates"] == nil {
			// It is there by default, and runs the same validations.
			continue
		}
		if !counted[r.Name] {
			counted[r.Name] = true
			coverage.rule(&r, seen[r.Name])
		}
	}
	parts.count(s.compiled.Ref, &coverage)
	if err := s.coverParts(ctx, &coverage); err != nil {
		return Coverage{}, fmt.Errorf("cover %s: %w", s.compiled.Ref, err)
	}
	coverage.Policies.count(coverage.Rules.Exercised > 0)
	return coverage, nil
}

// rules are those of the policy. An admission policy of Kubernetes has one with each binding that a
// case has beside it.
func (s *subject) rules(ctx context.Context) []rule.Rule {
	if s.compiled.Admission == nil {
		return s.compiled.Rules
	}
	var all []rule.Rule
	for _, c := range s.cases {
		linked := []compile.Compiled{s.compiled}
		for _, policy := range c.Policies {
			if other, ok := c.compiled(ctx, policy); ok && other.Binding != nil {
				linked = append(linked, other)
			}
		}
		all = append(all, compile.Order(linked)...)
	}
	return slices.DeleteFunc(all, func(r rule.Rule) bool { return r.Policy != s.compiled.Ref })
}

// Decide returns the decision on the request of the case.
func (c *Case) Decide(ctx context.Context) (usher.Decision, error) {
	ctx, cancel := context.WithTimeout(ctx, caseTimeout)
	defer cancel()
	s, err := c.prepare(ctx)
	if err != nil {
		return usher.Decision{}, err
	}
	defer s.close()
	a, err := s.decide(ctx, c)
	return a.decision, err
}

// rule counts a rule by its outcomes in all cases.
func (c *Coverage) rule(r *rule.Rule, outcomes map[usher.Outcome]bool) {
	if r.Phase == usher.Mutate {
		c.Rules.count(outcomes[usher.Changed])
		if !outcomes[usher.Changed] {
			c.Missing = append(c.Missing, fmt.Sprintf("%s %s: changes nothing in any case", r.Policy, r.Name))
		}
		return
	}
	c.Rules.count(outcomes[usher.Rejected])
	if !outcomes[usher.Rejected] {
		c.Missing = append(c.Missing, fmt.Sprintf("%s %s: rejects no case", r.Policy, r.Name))
	}
	if kind, _ := api.KindCalled(r.Policy.Kind); kind.Validations == parted {
		// Its validations are counted one by one.
		return
	}
	c.Conditions.count(outcomes[usher.Rejected] && outcomes[usher.Passed])
	if !outcomes[usher.Passed] {
		c.Missing = append(c.Missing, fmt.Sprintf("%s %s: passes no case", r.Policy, r.Name))
	}
}

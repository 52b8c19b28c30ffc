package policytest

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"

	usher "github.com/usher-dev/usher"
)

// coverParts counts the bindings and mutations of an object policy. Findings do not tell them apart,
// so cases are decided with one binding, and without one mutation. A binding for some requests is
// exercised by a case that it is for and one that it is not for, a mutation by a case that has
// another patch without it.
func (s *subject) coverParts(ctx context.Context, c *Coverage) error {
	if !kindOf(s.policy).ObjectPolicy {
		return nil
	}
	m := &mutator{policy: s.policy}
	for i, binding := range m.list("spec", "bindings") {
		if binding["matchResources"] == nil {
			continue
		}
		if err := s.coverBinding(ctx, i, binding, c); err != nil {
			return err
		}
	}
	m.items("spec", "mutations")
	if m.err != nil {
		return m.err
	}
	for i, without := range m.all {
		changed, err := s.changes(ctx, without.policy)
		if err != nil {
			return err
		}
		c.Conditions.count(changed)
		if !changed {
			c.Missing = append(c.Missing, fmt.Sprintf("%s spec.mutations[%d]: changes nothing in any case", s.compiled.Ref, i))
		}
	}
	return nil
}

// coverBinding compares the policy with the binding alone with the same for all requests.
func (s *subject) coverBinding(ctx context.Context, i int, binding map[string]any, c *Coverage) error {
	always := maps.Clone(binding)
	delete(always, "matchResources")
	p := &parts{held: map[string]bool{}, failed: map[string]bool{}}
	name, _ := binding["name"].(string)
	for _, test := range s.cases {
		meant, err := s.involved(ctx, test, always)
		if err != nil {
			return err
		}
		if !meant {
			continue
		}
		matches, err := s.involved(ctx, test, binding)
		if err != nil {
			return err
		}
		p.held[name] = p.held[name] || matches
		p.failed[name] = p.failed[name] || !matches
	}
	told := fmt.Sprintf("spec.bindings[%d]", i)
	if name != "" {
		told += " (" + name + ")"
	}
	p.part(s.compiled.Ref, name, told, [2]string{"is for every case", "is for no case"}, c)
	return nil
}

// involved reports whether a rule of the policy is for the request of a case if the policy has only
// one binding.
func (s *subject) involved(ctx context.Context, c *Case, binding map[string]any) (bool, error) {
	policy := runtime.DeepCopyJSON(s.policy)
	policy["spec"].(map[string]any)["bindings"] = []any{binding} //nolint:forcetypeassert // It has bindings.
	d, err := s.with(c, policy).Decide(ctx)
	return slices.ContainsFunc(d.Findings, func(f usher.Finding) bool {
		return f.Policy == s.compiled.Ref && f.Outcome != usher.Skipped
	}), err
}

// changes reports whether a case has another patch with another policy.
func (s *subject) changes(ctx context.Context, policy map[string]any) (bool, error) {
	for _, c := range s.cases {
		with, err := c.Decide(ctx)
		if err != nil {
			return false, err
		}
		without, err := s.with(c, policy).Decide(ctx)
		if err != nil {
			return false, err
		}
		if jsonOf(with.Patch) != jsonOf(without.Patch) {
			return true, nil
		}
	}
	return false, nil
}

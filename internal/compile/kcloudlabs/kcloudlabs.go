// Package kcloudlabs compiles the kinds of policy.kcloudlabs.io/v1alpha1.
//
// Passes of the mutate phase: the built-in rules, the ClusterOverridePolicies, the
// OverridePolicies. The ClusterValidatePolicies are the only pass of the validate phase.
package kcloudlabs

import (
	"context"
	"fmt"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api/kcloudlabs/v1alpha1"
	"github.com/usher-dev/usher/internal/lang/cue"
	"github.com/usher-dev/usher/internal/rule"
)

// The passes of the mutate phase. Policies of a later pass are matched on the object as
// the earlier passes have left it.
const (
	passBuiltIn = iota
	passCluster
	passNamespaced
)

// A Compiler compiles policies.
type Compiler struct {
	// CUE is where CUE's evaluator runs; nil means [cue.Default].
	CUE *cue.Evaluator
	// Limits say what policies may do.
	Limits rule.Limits
}

// OverridePolicy compiles a policy for the objects of its own namespace. A policy without
// namespace has no rules. Problems have no Policy and no File.
func (o Compiler) OverridePolicy(ctx context.Context, p *v1alpha1.OverridePolicy) ([]rule.Rule, []rule.Problem) {
	c := compilation{
		compiler: o, ref: usher.PolicyRef{Kind: "OverridePolicy", Namespace: p.Namespace, Name: p.Name},
		phase: usher.Mutate,
		pass:  passNamespaced,
	}
	c.selectors(p.Spec.ResourceSelectors)
	c.foreignNamespaces(p.Spec.ResourceSelectors)
	c.excludedKinds(p.Spec.ResourceSelectors)
	c.overrideRules(ctx, p.Spec.OverrideRules)
	if p.Namespace == "" {
		return nil, c.problems
	}
	return c.rules, c.problems
}

// ClusterOverridePolicy compiles a policy for the objects of every namespace. Problems
// have no Policy and no File.
func (o Compiler) ClusterOverridePolicy(ctx context.Context, p *v1alpha1.ClusterOverridePolicy) ([]rule.Rule, []rule.Problem) {
	c := compilation{
		compiler: o, ref: usher.PolicyRef{Kind: "ClusterOverridePolicy", Name: p.Name},
		phase: usher.Mutate,
		pass:  passCluster,
	}
	c.selectors(p.Spec.ResourceSelectors)
	c.overrideRules(ctx, p.Spec.OverrideRules)
	return c.rules, c.problems
}

// ClusterValidatePolicy compiles a policy that refuses objects. Problems have no Policy
// and no File.
func (o Compiler) ClusterValidatePolicy(ctx context.Context, p *v1alpha1.ClusterValidatePolicy) ([]rule.Rule, []rule.Problem) {
	c := compilation{
		compiler: o, ref: usher.PolicyRef{Kind: "ClusterValidatePolicy", Name: p.Name},
		phase: usher.Validate,
	}
	c.selectors(p.Spec.ResourceSelectors)
	c.validateRules(ctx, p.Spec.ValidateRules)
	return c.rules, c.problems
}

// A compilation collects what one policy compiles to.
type compilation struct {
	compiler Compiler
	ref      usher.PolicyRef
	phase    usher.Phase
	pass     int
	match    []rule.Selector
	// excluded are the kinds that the policy does not act on.
	excluded *rule.Excluded
	rules    []rule.Rule
	problems []rule.Problem
}

// emit adds a rule. One without steps has nothing to do and is left out.
func (c *compilation) emit(name string, operations []usher.Operation, steps []rule.Step, refs []*v1alpha1.ResourceRefer) {
	if len(steps) == 0 {
		return
	}
	c.rules = append(c.rules, rule.Rule{
		Policy: c.ref,
		Name:   name,
		Phase:  c.phase,
		Pass:   c.pass,
		Match:  rule.Match{Operations: operations, Namespace: c.ref.Namespace, Excluded: c.excluded, Selectors: c.match},
		Facts:  c.bounds(refs),
		Steps:  steps,
	})
}

func (c *compilation) warn(field, what, do string) {
	c.problems = append(c.problems, rule.Problem{Severity: rule.Warning, Field: field, What: what, Do: do})
}

func (c *compilation) fail(field, what, do string) {
	c.problems = append(c.problems, rule.Problem{Severity: rule.Error, Field: field, What: what, Do: do})
}

// add adds problems whose fields are relative to field.
func (c *compilation) add(field string, problems []rule.Problem) {
	for _, p := range problems {
		p.Field = join(field, p.Field)
		c.problems = append(c.problems, p)
	}
}

func join(parent, field string) string {
	if field == "" {
		return parent
	}
	return parent + "." + field
}

func (c *compilation) overrideRules(ctx context.Context, rules []v1alpha1.OverrideRule) {
	if len(rules) == 0 {
		c.warn("spec.overrideRules", "the policy has no rules: it does nothing", "add a rule")
	}
	for i := range rules {
		name := fmt.Sprintf("spec.overrideRules[%d]", i)
		operations := c.operations(name, rules[i].TargetOperations)
		field := name + ".overriders"
		steps := c.overriders(ctx, field, &rules[i].Overriders)
		c.emit(name, operations, steps, c.facts(field, steps, overrideReferences(&rules[i].Overriders)))
	}
}

func (c *compilation) validateRules(ctx context.Context, rules []v1alpha1.ValidateRule) {
	if len(rules) == 0 {
		c.warn("spec.validateRules", "the policy has no rules: it does nothing", "add a rule")
	}
	for i := range rules {
		name := fmt.Sprintf("spec.validateRules[%d]", i)
		operations := c.operations(name, rules[i].TargetOperations)
		steps := c.validators(ctx, name, &rules[i])
		c.emit(name, operations, steps, c.facts(name, steps, validateReferences(&rules[i])))
	}
}

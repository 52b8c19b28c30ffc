package kcloudlabs

import (
	"context"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api/kcloudlabs/v1alpha1"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/lang/cue"
	"github.com/usher-dev/usher/internal/rule"
)

// A Part is a program of a policy of another kind, which means what it means in the policies of this
// package.
type Part struct {
	// Program always fails if there is a problem of severity Error.
	Program rule.Program
	// Reads are the objects that it reads, if the policy is in a namespace.
	Reads []fact.Read
	// Problems have fields that begin with template or cue.
	Problems []rule.Problem
}

// Template compiles a template of a policy.
func (o Compiler) Template(ctx context.Context, ref usher.PolicyRef, t *v1alpha1.OverrideRuleTemplate) Part {
	c := compilation{compiler: o, ref: ref, phase: usher.Mutate}
	step := c.step("template", "", func() (rule.Program, []rule.Problem) { return overrideTemplate(ctx, t, c.options()) })
	return c.part(step, overrideReferences(&v1alpha1.Overriders{Template: t}))
}

// Validation compiles a CUE program of a policy that defines validate.
func (o Compiler) Validation(ctx context.Context, ref usher.PolicyRef, source string) Part {
	c := compilation{compiler: o, ref: ref, phase: usher.Validate}
	step := c.step("cue", "", func() (rule.Program, []rule.Problem) { return handWritten(ctx, source, cue.Validate, c.options()) })
	return c.part(step, nil)
}

func (c *compilation) part(step rule.Step, refs map[string]*v1alpha1.ResourceRefer) Part {
	p := Part{Program: step.Program}
	if bounds := c.bounds(c.facts("", []rule.Step{step}, refs)); bounds != nil {
		p.Reads = bounds.Reads
	}
	p.Problems = c.problems
	return p
}

package object

import (
	"context"
	"fmt"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	usher "github.com/usher-dev/usher"
	kcloudlabs "github.com/usher-dev/usher/api/kcloudlabs/v1alpha1"
	"github.com/usher-dev/usher/api/usher/v1alpha1"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/compile/spec"
	"github.com/usher-dev/usher/internal/lang/cel/admission"
	"github.com/usher-dev/usher/internal/lang/patch"
	"github.com/usher-dev/usher/internal/rule"
)

// Languages compile the parts of a policy that are not CEL. They mean what they mean in the policies of
// kinitiras.
type Languages interface {
	// Template compiles a template.
	Template(ctx context.Context, ref usher.PolicyRef, t *kcloudlabs.OverrideRuleTemplate) Part
	// Validation compiles a CUE program that defines validate.
	Validation(ctx context.Context, ref usher.PolicyRef, source string) Part
}

// A Part is a program of a policy.
type Part struct {
	// Program always fails if there is a problem of severity Error.
	Program rule.Program
	// Reads are the objects that it reads, if the policy is in a namespace.
	Reads []fact.Read
	// Problems have fields that begin with template or cue.
	Problems []rule.Problem
}

// add adds the problems of a part of the policy, and returns its program.
func (c *compilation) add(field string, p Part) Part {
	for _, problem := range p.Problems {
		problem.Field = field + "." + problem.Field
		c.Problems = append(c.Problems, problem)
	}
	c.reads = append(c.reads, p.Reads...)
	return p
}

// validation compiles a validation, whose expression may be a CUE program.
func (c *compilation) validation(ctx context.Context, at string, v *v1alpha1.Validation) admission.Validation {
	written := admissionv1.Validation{Expression: v.Expression, Message: oneLine(v.Message), MessageExpression: v.MessageExpression}
	if v.Reason != "" {
		written.Reason = &v.Reason
	}
	if v.Cue == "" {
		return c.Validation(at, written)
	}
	if v.Expression != "" {
		c.Fail(at, "a validation has either expression or cue", "remove one of them")
	}
	written.Expression = v.Cue
	compiled := c.Validation(at, written)
	compiled.Expression, compiled.Program = "", c.add(at, c.options.Languages.Validation(ctx, c.policy.ref, v.Cue)).Program
	return compiled
}

// mutation compiles a mutation.
func (c *compilation) mutation(ctx context.Context, at string, m *v1alpha1.Mutation) admission.Mutation {
	compiled := admission.Mutation{Type: admission.PatchType(m.PatchType), Program: spec.Failing("the mutation does not compile")}
	other := m.ApplyConfiguration != nil || m.JSONPatch != nil
	switch m.PatchType {
	case v1alpha1.PatchTypeMergePatch:
		c.alone(at, m.PatchType, other || m.Template != nil)
		if m.MergePatch == nil {
			c.Fail(at+".mergePatch", "missing: the mutation changes nothing", "write the fields that change, as in the object")
			break
		}
		program, problems := patch.Merge(m.MergePatch.Raw)
		for _, p := range problems {
			c.Fail(at+".mergePatch", p.What, p.Do)
		}
		if program != nil {
			compiled.Program = program
		}
	case v1alpha1.PatchTypeTemplate:
		c.alone(at, m.PatchType, other || m.MergePatch != nil)
		if m.Template == nil {
			c.Fail(at+".template", "missing: the mutation changes nothing", "write a template, as in an OverridePolicy")
			break
		}
		compiled.Program = c.add(at, c.options.Languages.Template(ctx, c.policy.ref, m.Template)).Program
	case v1alpha1.PatchTypeApplyConfiguration, v1alpha1.PatchTypeJSONPatch:
		c.alone(at, m.PatchType, m.MergePatch != nil || m.Template != nil)
		return c.Mutation(at, &admissionv1.Mutation{
			PatchType: admissionv1.PatchType(m.PatchType), ApplyConfiguration: m.ApplyConfiguration, JSONPatch: m.JSONPatch,
		})
	default:
		c.Fail(at+".patchType", fmt.Sprintf("%q is not a patch type", m.PatchType), "use ApplyConfiguration, JSONPatch, MergePatch or Template")
	}
	return compiled
}

// alone refuses fields of other patch types.
func (c *compilation) alone(at string, of v1alpha1.PatchType, others bool) {
	if others {
		c.Fail(at, fmt.Sprintf("a mutation with the patchType %s has the field of another patchType, too", of), "remove it")
	}
}

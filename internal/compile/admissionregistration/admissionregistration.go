// Package admissionregistration compiles Kubernetes' admission policies of
// admissionregistration.k8s.io, with their bindings.
//
// A policy says what to do and a binding puts it into force: neither has rules alone. [Link] makes
// a rule of each pair. It decides as an API server does, with the same texts.
package admissionregistration

import (
	"context"
	"fmt"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/compile/spec"
	"github.com/usher-dev/usher/internal/lang/cel"
	"github.com/usher-dev/usher/internal/lang/cel/admission"
	"github.com/usher-dev/usher/internal/rule"
)

// A Policy is a ValidatingAdmissionPolicy or a MutatingAdmissionPolicy, compiled. It is immutable.
type Policy struct {
	kind, name string
	match      spec.Match
	params     *admissionv1.ParamKind
	ignore     bool
	// again says that a policy that mutates is evaluated again after other changes.
	again   bool
	program *admission.Program
}

// Ref returns the reference of the policy.
func (p *Policy) Ref() usher.PolicyRef { return usher.PolicyRef{Kind: p.kind, Name: p.name} }

// A Binding is a binding of a [Policy], compiled. It is immutable.
type Binding struct {
	// kind is that of the policy.
	kind, name, policy string
	match              spec.Match
	params             *spec.Params
	actions            []usher.Action
}

// Policy returns the reference of the policy that the binding puts into force.
func (b *Binding) Policy() usher.PolicyRef { return usher.PolicyRef{Kind: b.kind, Name: b.policy} }

// ValidatingAdmissionPolicy compiles a policy. Problems have no Policy and no File.
func ValidatingAdmissionPolicy(ctx context.Context, p *admissionv1.ValidatingAdmissionPolicy) (*Policy, []rule.Problem) {
	c := spec.Compilation{Budget: cel.Budget{Context: ctx}}
	compiled := &Policy{kind: validatingKind, name: p.Name, params: p.Spec.ParamKind}
	source := compiled.head(&c, p.Spec.MatchConstraints, p.Spec.FailurePolicy)
	source.Variables, source.Conditions = c.Variables(p.Spec.Variables), c.Conditions(p.Spec.MatchConditions)
	if len(p.Spec.Validations) == 0 && len(p.Spec.AuditAnnotations) == 0 {
		c.Fail("spec.validations", "validations or auditAnnotations must be set: the policy does nothing", "add a validation")
	}
	for i, v := range p.Spec.Validations {
		source.Validations = append(source.Validations, c.Validation(fmt.Sprintf("spec.validations[%d]", i), v))
	}
	source.Annotations = c.Annotations(p.Spec.AuditAnnotations)
	return compiled, compiled.compile(&c, source)
}

// head compiles what all policies have in common.
func (p *Policy) head(c *spec.Compilation, constraints *admissionv1.MatchResources, failurePolicy *admissionv1.FailurePolicyType) admission.Code {
	p.match = c.Constraints(constraints)
	p.ignore = c.FailurePolicy(failurePolicy)
	c.ParamKind(p.params)
	return admission.Code{Params: p.params != nil, Ignore: p.ignore}
}

// compile compiles the expressions, and returns all problems.
func (p *Policy) compile(c *spec.Compilation, source admission.Code) []rule.Problem {
	program, problems := admission.CompileWithin(&c.Budget, source)
	p.program = program
	c.NoteSecrets(program, &p.match, nil, p.params, nil)
	return append(c.Problems, problems...)
}

// ValidatingAdmissionPolicyBinding compiles a binding. Problems have no Policy and no File.
func ValidatingAdmissionPolicyBinding(b *admissionv1.ValidatingAdmissionPolicyBinding) (*Binding, []rule.Problem) {
	var c spec.Compilation
	compiled := binding(&c, validatingKind, b.Name, b.Spec.PolicyName, b.Spec.MatchResources, b.Spec.ParamRef)
	compiled.actions = c.Actions("spec.validationActions", b.Spec.ValidationActions)
	return compiled, c.Problems
}

// binding compiles what all bindings have in common. The kind is that of the policy.
func binding(c *spec.Compilation, kind, name, policy string, match *admissionv1.MatchResources, ref *admissionv1.ParamRef) *Binding {
	compiled := &Binding{kind: kind, name: name, policy: policy}
	if policy == "" {
		c.Fail("spec.policyName", "missing: the binding puts no policy into force", "name a "+kind)
	}
	if match != nil {
		compiled.match = c.Match("spec.matchResources", match)
	}
	compiled.params = c.ParamRef("spec.paramRef", ref)
	return compiled
}

// HasParams reports whether the policy has a kind of params.
func (p *Policy) HasParams() bool { return p.params != nil }

// HasParams reports whether the binding names params.
func (b *Binding) HasParams() bool { return b.params != nil }

// Params names the params of a binding of p. It is false if there are none, or if every request
// has other ones.
func (b *Binding) Params(p *Policy) (fact.Ref, bool) { return b.params.Ref(p.params) }

// Absent returns the problem that the params of a binding of p do not exist, or cannot be read,
// given the value or error of the fact that [Binding.Params] names. Otherwise it is false. The
// problem has no Policy and no File; its field is one of the binding.
func (b *Binding) Absent(p *Policy, value any, err error) (rule.Problem, bool) {
	return b.params.Absent(p.params, p.ignore, value, err)
}

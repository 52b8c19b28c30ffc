package admissionregistration

import (
	"context"
	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/usher-dev/usher/internal/compile/spec"
	"github.com/usher-dev/usher/internal/lang/cel"
	"github.com/usher-dev/usher/internal/rule"
)

const (
	validatingKind = "ValidatingAdmissionPolicy"
	mutatingKind   = "MutatingAdmissionPolicy"
)

// The passes of rules that mutate. API servers evaluate admission policies before they call
// webhooks; those that are evaluated again see what everybody else has changed.
const (
	passOnce  = -1
	passAgain = 9
)

// MutatingAdmissionPolicy compiles a policy. Problems have no Policy and no File.
func MutatingAdmissionPolicy(ctx context.Context, p *admissionv1.MutatingAdmissionPolicy) (*Policy, []rule.Problem) {
	c := spec.Compilation{Budget: cel.Budget{Context: ctx}}
	compiled := &Policy{kind: mutatingKind, name: p.Name, params: p.Spec.ParamKind}
	source := compiled.head(&c, p.Spec.MatchConstraints, p.Spec.FailurePolicy)
	c.Writes("spec.matchConstraints", &compiled.match)
	compiled.again = c.Reinvocation(p.Spec.ReinvocationPolicy)
	source.Variables, source.Conditions = c.Variables(p.Spec.Variables), c.Conditions(p.Spec.MatchConditions)
	source.Mutations = c.Mutations(p.Spec.Mutations)
	return compiled, compiled.compile(&c, source)
}

// MutatingAdmissionPolicyBinding compiles a binding. Problems have no Policy and no File.
func MutatingAdmissionPolicyBinding(b *admissionv1.MutatingAdmissionPolicyBinding) (*Binding, []rule.Problem) {
	var c spec.Compilation
	compiled := binding(&c, mutatingKind, b.Name, b.Spec.PolicyName, b.Spec.MatchResources, b.Spec.ParamRef)
	c.Writes("spec.matchResources", &compiled.match)
	return compiled, c.Problems
}

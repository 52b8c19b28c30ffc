package admissionregistration

import (
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/lang/cel/admission"
	"github.com/usher-dev/usher/rule"
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
func MutatingAdmissionPolicy(p *admissionv1.MutatingAdmissionPolicy) (*Policy, []rule.Problem) {
	var c compilation
	compiled := &Policy{kind: mutatingKind, name: p.Name, params: p.Spec.ParamKind}
	compiled.match = c.constraints(p.Spec.MatchConstraints)
	c.writes("spec.matchConstraints", &compiled.match)
	compiled.ignore = c.failurePolicy(p.Spec.FailurePolicy)
	c.paramKind(p.Spec.ParamKind)
	compiled.again = c.reinvocation(p.Spec.ReinvocationPolicy)
	source := admission.Source{
		Params: p.Spec.ParamKind != nil, Ignore: compiled.ignore,
		Variables: c.variables(p.Spec.Variables), Conditions: c.conditions(p.Spec.MatchConditions),
		Mutations: c.mutations(p.Spec.Mutations),
	}
	program, problems := admission.Compile(source)
	c.problems = append(c.problems, problems...)
	compiled.program = program
	return compiled, c.problems
}

// MutatingAdmissionPolicyBinding compiles a binding. Problems have no Policy and no File.
func MutatingAdmissionPolicyBinding(b *admissionv1.MutatingAdmissionPolicyBinding) (*Binding, []rule.Problem) {
	var c compilation
	compiled := &Binding{kind: mutatingKind, name: b.Name, policy: b.Spec.PolicyName}
	c.policyName(mutatingKind, b.Spec.PolicyName)
	if b.Spec.MatchResources != nil {
		compiled.match = c.matching("spec.matchResources", b.Spec.MatchResources)
		c.writes("spec.matchResources", &compiled.match)
	}
	compiled.params = c.paramRef(b.Spec.ParamRef)
	return compiled, c.problems
}

// writes leaves out deletions, which change no object.
func (c *compilation) writes(field string, m *matching) {
	for i := range m.resources.Rules {
		r := &m.resources.Rules[i]
		if slices.Contains(r.Operations, usher.Delete) {
			c.fail(fmt.Sprintf("%s.resourceRules[%d].operations", field, i), "a deletion changes no object", "use CREATE, UPDATE, CONNECT or *")
		}
		if len(r.Operations) == 0 {
			r.Operations = []usher.Operation{usher.Create, usher.Update, usher.Connect}
		}
	}
}

func (c *compilation) reinvocation(p admissionv1.ReinvocationPolicyType) (again bool) {
	switch p {
	case admissionv1.NeverReinvocationPolicy:
	case admissionv1.IfNeededReinvocationPolicy:
		return true
	case "":
		c.fail("spec.reinvocationPolicy", "missing: whether to evaluate the policy again after other changes is not known", "use Never or IfNeeded")
	default:
		c.fail("spec.reinvocationPolicy", fmt.Sprintf("%q is not a reinvocation policy", p), "use Never or IfNeeded")
	}
	return false
}

func (c *compilation) mutations(all []admissionv1.Mutation) []admission.Mutation {
	if len(all) == 0 {
		c.fail("spec.mutations", "missing: the policy does nothing", "add a mutation with a patchType")
	}
	compiled := make([]admission.Mutation, 0, len(all))
	for i := range all {
		compiled = append(compiled, c.mutation(fmt.Sprintf("spec.mutations[%d]", i), &all[i]))
	}
	return compiled
}

func (c *compilation) mutation(field string, m *admissionv1.Mutation) admission.Mutation {
	var expressions []string
	if m.JSONPatch != nil {
		expressions = append(expressions, string(admissionv1.PatchTypeJSONPatch))
	}
	if m.ApplyConfiguration != nil {
		expressions = append(expressions, string(admissionv1.PatchTypeApplyConfiguration))
	}
	compiled := admission.Mutation{Type: admission.PatchType(m.PatchType)}
	switch {
	case m.PatchType == "":
		c.fail(field+".patchType", "missing: what the expression says is not known", "use JSONPatch or ApplyConfiguration")
	case m.PatchType != admissionv1.PatchTypeJSONPatch && m.PatchType != admissionv1.PatchTypeApplyConfiguration:
		c.fail(field+".patchType", fmt.Sprintf("%q is not a patch type", m.PatchType), "use JSONPatch or ApplyConfiguration")
	case len(expressions) != 1 || expressions[0] != string(m.PatchType):
		name := strings.ToLower(string(m.PatchType[:1])) + string(m.PatchType[1:])
		c.fail(field, fmt.Sprintf("a mutation with the patchType %s has %s", m.PatchType, orNothing(expressions)),
			fmt.Sprintf("set %s.expression, and nothing else", name))
	case m.PatchType == admissionv1.PatchTypeJSONPatch:
		c.present(field+".jsonPatch.expression", m.JSONPatch.Expression)
		compiled.Expression = m.JSONPatch.Expression
	default:
		c.present(field+".applyConfiguration.expression", m.ApplyConfiguration.Expression)
		compiled.Expression = m.ApplyConfiguration.Expression
	}
	return compiled
}

func orNothing(fields []string) string {
	if len(fields) == 0 {
		return "no expression"
	}
	return "the fields of " + strings.Join(fields, " and ")
}

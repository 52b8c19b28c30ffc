package spec

import (
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/lang/cel/admission"
	"github.com/usher-dev/usher/internal/rule"
)

// Writes leaves out deletions, which change no object.
func (c *Compilation) Writes(field string, m *Match) {
	for i := range m.Resources.Rules {
		r := &m.Resources.Rules[i]
		if slices.Contains(r.Operations, usher.Delete) {
			c.Fail(fmt.Sprintf("%s.resourceRules[%d].operations", field, i), "a deletion changes no object", "use CREATE, UPDATE, CONNECT or *")
		}
		if len(r.Operations) == 0 {
			r.Operations = []usher.Operation{usher.Create, usher.Update, usher.Connect}
		}
	}
	m.settle()
}

// Changing returns the requests of m that write an object: deletions change none.
func Changing(m rule.ResourceMatch) rule.ResourceMatch {
	var rules []rule.ResourceRule
	for _, r := range m.Rules {
		if len(r.Operations) == 0 {
			r.Operations = []usher.Operation{usher.Create, usher.Update, usher.Connect}
		}
		r.Operations = slices.DeleteFunc(slices.Clone(r.Operations), func(o usher.Operation) bool { return o == usher.Delete })
		if len(r.Operations) > 0 {
			rules = append(rules, r)
		}
	}
	m.Rules = rules
	return m
}

// Reinvocation compiles spec.reinvocationPolicy.
func (c *Compilation) Reinvocation(p admissionv1.ReinvocationPolicyType) (again bool) {
	switch p {
	case admissionv1.NeverReinvocationPolicy:
	case admissionv1.IfNeededReinvocationPolicy:
		return true
	case "":
		c.Fail("spec.reinvocationPolicy", "missing: whether to evaluate the policy again after other changes is not known", "use Never or IfNeeded")
	default:
		c.Fail("spec.reinvocationPolicy", fmt.Sprintf("%q is not a reinvocation policy", p), "use Never or IfNeeded")
	}
	return false
}

// Mutations compiles spec.mutations.
func (c *Compilation) Mutations(all []admissionv1.Mutation) []admission.Mutation {
	if len(all) == 0 {
		c.Fail("spec.mutations", "missing: the policy does nothing", "add a mutation with a patchType")
	}
	compiled := make([]admission.Mutation, 0, len(all))
	for i := range all {
		compiled = append(compiled, c.Mutation(fmt.Sprintf("spec.mutations[%d]", i), &all[i]))
	}
	return compiled
}

// Mutation compiles a mutation.
func (c *Compilation) Mutation(field string, m *admissionv1.Mutation) admission.Mutation {
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
		c.Fail(field+".patchType", "missing: what the expression says is not known", "use JSONPatch or ApplyConfiguration")
	case m.PatchType != admissionv1.PatchTypeJSONPatch && m.PatchType != admissionv1.PatchTypeApplyConfiguration:
		c.Fail(field+".patchType", fmt.Sprintf("%q is not a patch type", m.PatchType), "use JSONPatch or ApplyConfiguration")
	case len(expressions) != 1 || expressions[0] != string(m.PatchType):
		name := strings.ToLower(string(m.PatchType[:1])) + string(m.PatchType[1:])
		c.Fail(field, fmt.Sprintf("a mutation with the patchType %s has %s", m.PatchType, orNothing(expressions)),
			fmt.Sprintf("set %s.expression, and nothing else", name))
	case m.PatchType == admissionv1.PatchTypeJSONPatch:
		c.Present(field+".jsonPatch.expression", m.JSONPatch.Expression)
		compiled.Expression = m.JSONPatch.Expression
	default:
		c.Present(field+".applyConfiguration.expression", m.ApplyConfiguration.Expression)
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

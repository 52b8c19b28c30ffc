package spec

import (
	"context"
	"errors"
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
		expressions = append(expressions, "jsonPatch")
	}
	if m.ApplyConfiguration != nil {
		expressions = append(expressions, "applyConfiguration")
	}
	compiled := admission.Mutation{Type: admission.PatchType(m.PatchType), Program: Failing("the mutation does not compile")}
	switch {
	case m.PatchType == "":
		c.Fail(field+".patchType", "missing: what the expression says is not known", "use JSONPatch or ApplyConfiguration")
	case m.PatchType != admissionv1.PatchTypeJSONPatch && m.PatchType != admissionv1.PatchTypeApplyConfiguration:
		c.Fail(field+".patchType", fmt.Sprintf("%q is not a patch type", m.PatchType), "use JSONPatch or ApplyConfiguration")
	case len(expressions) != 1 || expressions[0] != patchField(m.PatchType):
		c.Fail(field, fmt.Sprintf("a mutation with the patchType %s has %s", m.PatchType, orNothing(expressions)),
			fmt.Sprintf("set %s.expression, and nothing else", patchField(m.PatchType)))
	case m.PatchType == admissionv1.PatchTypeJSONPatch:
		return admission.Mutation{Type: compiled.Type, Expression: m.JSONPatch.Expression}
	default:
		return admission.Mutation{Type: compiled.Type, Expression: m.ApplyConfiguration.Expression}
	}
	return compiled
}

// patchField returns the field that has the expression of mutations of a type.
func patchField(t admissionv1.PatchType) string {
	if t == admissionv1.PatchTypeJSONPatch {
		return "jsonPatch"
	}
	return "applyConfiguration"
}

func orNothing(fields []string) string {
	if len(fields) == 0 {
		return "no expression"
	}
	return strings.Join(fields, " and ")
}

// A Failing program is in the place of one that does not compile, and says why.
type Failing string

// Run implements [rule.Program].
func (f Failing) Run(context.Context, *rule.Input) (rule.Outcome, error) {
	return rule.Outcome{}, errors.New(string(f))
}

// DependsOn implements [rule.Dependent].
func (Failing) DependsOn(usher.Operation) rule.Dependencies { return 0 }

// String implements [rule.Program].
func (Failing) String() string { return "does not compile" }

package admissionregistration

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/lang/cel/admission"
	"github.com/usher-dev/usher/lang/cel/typecheck"
	"github.com/usher-dev/usher/rule"
)

// Matches returns what requests the policy is for, whatever its bindings say.
func (p *Policy) Matches() *rule.ResourceMatch { return &p.match.Resources }

// Params returns the kind of the parameters; empty if there are none.
func (p *Policy) Params() schema.GroupVersionKind {
	if p.params == nil {
		return schema.GroupVersionKind{}
	}
	return schema.FromAPIVersionAndKind(p.params.APIVersion, p.params.Kind)
}

// Expressions returns the expressions of the policy, to check their types.
func (p *Policy) Expressions() []typecheck.Expression {
	s := p.program.Source()
	var all []typecheck.Expression
	add := func(use typecheck.Use, name, text, field string, args ...any) {
		if text != "" {
			all = append(all, typecheck.Expression{Use: use, Name: name, Text: text, Field: fmt.Sprintf(field, args...)})
		}
	}
	for i, v := range s.Variables {
		add(typecheck.Variable, v.Name, v.Expression, "spec.variables[%d].expression", i)
	}
	for i, m := range s.Conditions {
		add(typecheck.Condition, "", m.Expression, "spec.matchConditions[%d].expression", i)
	}
	for i, v := range s.Validations {
		add(typecheck.Check, "", v.Expression, "spec.validations[%d].expression", i)
		add(typecheck.Check, "", v.MessageExpression, "spec.validations[%d].messageExpression", i)
	}
	for i, m := range s.Mutations {
		field := "spec.mutations[%d].jsonPatch.expression"
		if m.Type == admission.ApplyConfiguration {
			field = "spec.mutations[%d].applyConfiguration.expression"
		}
		add(typecheck.Check, "", m.Expression, field, i)
	}
	for i, a := range s.Annotations {
		add(typecheck.Check, "", a.ValueExpression, "spec.auditAnnotations[%d].valueExpression", i)
	}
	return all
}

// Unbound returns the rule of the policy as if a binding put it into force for everything that it
// matches, without parameters.
func (p *Policy) Unbound() rule.Rule {
	return bind(p, &Binding{kind: p.kind, policy: p.name, actions: []usher.Action{usher.ActDeny}})
}

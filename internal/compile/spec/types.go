package spec

import (
	"fmt"

	"github.com/usher-dev/usher/internal/lang/cel/admission"
	"github.com/usher-dev/usher/internal/lang/cel/typecheck"
)

// Expressions returns the expressions of a policy, to check their types.
func Expressions(s admission.Source) []typecheck.Expression {
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
	for _, t := range s.Texts {
		add(typecheck.Check, "", t.Expression, "%s", t.Field)
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

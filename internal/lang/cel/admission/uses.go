package admission

import "fmt"

// A Use says what an expression is for.
type Use int

// The uses of expressions.
const (
	// Check is an expression that is evaluated for every object, or after another one.
	Check Use = iota
	// Variable is one whose value others read. It is evaluated when they do.
	Variable
	// Condition is one that has to be true for the policy to be evaluated.
	Condition
)

// An Expression is one of a policy.
type Expression struct {
	// Field is its path in the policy.
	Field, Text string
	Use         Use
	// Name is that of a variable.
	Name string
}

// Expressions returns the expressions in the order of evaluation: variables come first.
func (p *Program) Expressions() []Expression {
	s := &p.source
	var all []Expression
	add := func(use Use, name, text, field string, args ...any) {
		if text != "" {
			all = append(all, Expression{Use: use, Name: name, Text: text, Field: fmt.Sprintf(field, args...)})
		}
	}
	for i, v := range s.Variables {
		add(Variable, v.Name, v.Expression, "spec.variables[%d].expression", i)
	}
	for i, m := range s.Conditions {
		add(Condition, "", m.Expression, "spec.matchConditions[%d].expression", i)
	}
	for i, v := range s.Validations {
		add(Check, "", v.Expression, "spec.validations[%d].expression", i)
		add(Check, "", v.MessageExpression, "spec.validations[%d].messageExpression", i)
	}
	for _, t := range s.Texts {
		add(Check, "", t.Expression, "%s", t.Field)
	}
	for i, m := range s.Mutations {
		field := "spec.mutations[%d].jsonPatch.expression"
		if m.Type == ApplyConfiguration {
			field = "spec.mutations[%d].applyConfiguration.expression"
		}
		add(Check, "", m.Expression, field, i)
	}
	for i, a := range s.Annotations {
		add(Check, "", a.ValueExpression, "spec.auditAnnotations[%d].valueExpression", i)
	}
	return all
}

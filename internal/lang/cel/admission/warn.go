package admission

import (
	"fmt"

	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"

	"github.com/usher-dev/usher/internal/lang/cel"
	"github.com/usher-dev/usher/internal/rule"
)

// optionalType is the name of the types of optional values.
const optionalType = "optional_type"

// warn warns of what an expression that compiles surely does not mean.
func (c *compilation) warn(field, text string, checked *celgo.Ast) {
	c.warnOfOptionals(field, checked)
	for _, issue := range cel.SurelyWrong(checked) {
		c.problems = append(c.problems, rule.Problem{
			Severity: rule.Warning, Field: field, At: rule.PlaceIn(text, issue.Line, issue.Column), What: issue.What, Do: issue.Do,
		})
	}
}

// warnOfOptionals warns of fields of variables whose values are optional. In API servers these have
// no fields, although the type checker permits them: such a field is always absent.
func (c *compilation) warnOfOptionals(field string, checked *celgo.Ast) {
	if len(c.optionals) == 0 {
		return
	}
	told := map[string]bool{}
	ast.PreOrderVisit(checked.NativeRep().Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		operand, _ := cel.Selected(e)
		if operand == nil {
			return
		}
		name := operand.AsSelect().FieldName()
		if operand.AsSelect().Operand().AsIdent() != variablesName || !c.optionals[name] || told[name] {
			return
		}
		told[name] = true
		c.problems = append(c.problems, rule.Problem{
			Severity: rule.Warning, Field: field,
			What: fmt.Sprintf("the value of variables.%s is optional: its fields are always absent, as in API servers", name),
			Do:   fmt.Sprintf("write variables.%s.orValue({}), or give the variable a value with orValue", name),
		})
	}))
}

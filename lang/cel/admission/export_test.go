package admission

import (
	"context"
	"fmt"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types/ref"
)

// An Outcome is the value of one expression, or its error.
type Outcome struct {
	Value ref.Val
	Err   error
}

// CompileAny compiles expressions of any type. They see what validations of s see.
func CompileAny(s Source, texts ...string) (*Program, error) {
	e, err := takeEnvironments()
	if err != nil {
		return nil, err
	}
	defer e.release()
	c := compilation{environments: e, declared: declared{params: s.Params, authorizer: true}}
	p := &Program{source: s}
	for i, v := range s.Variables {
		compiled, output := c.compile(fmt.Sprintf("spec.variables[%d].expression", i), v.Expression, cel.AnyType, cel.DynType)
		e.variables.Fields[v.Name] = required(v.Name, declaredType(output))
		p.variables = append(p.variables, variable{name: v.Name, expression: compiled})
	}
	for _, text := range texts {
		compiled, _ := c.compile("spec.validations", text, cel.AnyType)
		p.validations = append(p.validations, compiled)
	}
	return p, nil
}

// ValueOf evaluates the ith expression of CompileAny and returns what is left of the budget. The
// error is [*fact.Missing], or that the budget is spent.
func (p *Program) ValueOf(ctx context.Context, in *Input, i int, budget int64) (Outcome, int64, error) {
	a := in.activation(p, withNamespace|withAuthorizer)
	values, left, err := a.evaluateAll(ctx, p.validations[i:i+1], budget)
	if stop := interrupted(ctx, a); stop != nil {
		return Outcome{}, -1, stop
	}
	if err != nil {
		return Outcome{}, -1, err
	}
	return Outcome{values[0].value, values[0].err}, left, nil
}

package admission

import (
	"context"
	"fmt"
	"strings"

	"github.com/google/cel-go/cel"

	"github.com/usher-dev/usher/rule"
)

// Explain evaluates the policy for a request and one object of params, and returns the expressions
// in the order of their evaluation, each with its parts and after the variables that it reads. The
// error is [*fact.Missing], that of a fact, or that of ctx.
//
// It compiles and evaluates again, with every value recorded, which takes milliseconds. It is for
// people who ask why, not for requests.
func (p *Program) Explain(ctx context.Context, in *Input) ([]rule.Expression, error) {
	e, err := takeEnvironments()
	if err != nil {
		return nil, err
	}
	defer e.release()
	x := &explanation{program: p, in: in, environments: e}
	if err := x.declare(); err != nil {
		return nil, err
	}
	err = x.all(ctx)
	return x.told, err
}

// An explanation evaluates the expressions of a policy one after the other.
type explanation struct {
	*environments

	program   *Program
	in        *Input
	recording map[declared]*cel.Env
	told      []rule.Expression
	// explained are the variables that have been told, by their index.
	explained map[int]bool
}

// declare prepares environments that record macros, and gives the variables their types.
func (x *explanation) declare() error {
	x.recording, x.explained = map[declared]*cel.Env{}, map[int]bool{}
	params := x.program.source.Params
	for _, d := range []declared{{params: params}, {params: params, authorizer: true}} {
		env, err := x.of[d].Extend(cel.EnableMacroCallTracking())
		if err != nil {
			return fmt.Errorf("make CEL environment: %w", err)
		}
		x.recording[d] = env
	}
	for _, v := range x.program.source.Variables {
		var output *cel.Type
		if ast, issues := x.recording[declared{params: params, authorizer: true}].Compile(v.Expression); issues == nil {
			output = ast.OutputType()
		}
		x.variables.Fields[v.Name] = required(v.Name, declaredType(output))
	}
	return nil
}

// all explains as [Program.Evaluate] evaluates.
func (x *explanation) all(ctx context.Context) error {
	source := &x.program.source
	conditions := x.in.activation(x.program, withAuthorizer|asConditions)
	skipped := false
	for i, c := range source.Conditions {
		told, err := x.tell(ctx, conditions, part{
			field: fmt.Sprintf("spec.matchConditions[%d].expression", i), name: c.Name, text: c.Expression, decides: true, authorizer: true,
		})
		if err != nil {
			return err
		}
		skipped = skipped || told.Value != true
	}
	if skipped {
		return nil
	}
	denied := make([]bool, len(source.Validations))
	validations := x.in.activation(x.program, withNamespace|withAuthorizer)
	for i, v := range source.Validations {
		told, err := x.tell(ctx, validations, part{
			field: fmt.Sprintf("spec.validations[%d].expression", i), text: v.Expression, decides: true, authorizer: true,
		})
		if err != nil {
			return err
		}
		denied[i] = told.Value == false
	}
	texts := x.in.activation(x.program, withNamespace)
	for i, v := range source.Validations {
		if !denied[i] || v.MessageExpression == "" {
			continue
		}
		if _, err := x.tell(ctx, texts, part{field: fmt.Sprintf("spec.validations[%d].messageExpression", i), text: v.MessageExpression}); err != nil {
			return err
		}
	}
	texts = x.in.activation(x.program, withNamespace)
	for i, a := range source.Annotations {
		told := part{field: fmt.Sprintf("spec.auditAnnotations[%d].valueExpression", i), name: a.Key, text: a.ValueExpression, authorizer: true}
		if _, err := x.tell(ctx, texts, told); err != nil {
			return err
		}
	}
	return nil
}

// A part is an expression of a policy.
type part struct {
	field, name, text string
	// decides says that the expression is a condition or a validation: it ought to be true.
	decides bool
	// authorizer says that the expression is compiled with the variable authorizer.
	authorizer bool
}

// tell explains an expression, and before it the variables that it reads.
func (x *explanation) tell(ctx context.Context, a *activation, p part) (rule.Expression, error) {
	told := x.explain(ctx, a, p)
	if err := interrupted(ctx, a); err != nil {
		return told, err
	}
	for i := range a.variables.values {
		if a.variables.values[i] == nil || x.explained[i] {
			continue
		}
		x.explained[i] = true
		v := &x.program.source.Variables[i]
		x.told = append(x.told, x.explain(ctx, a, part{
			field: fmt.Sprintf("spec.variables[%d].expression", i), name: v.Name, text: v.Expression, authorizer: true,
		}))
	}
	x.told = append(x.told, told)
	return told, interrupted(ctx, a)
}

func (x *explanation) explain(ctx context.Context, a *activation, p part) rule.Expression {
	told := rule.Expression{Field: p.field, Name: p.name, Text: inLine(p.text)}
	env := x.recording[declared{params: x.program.source.Params, authorizer: p.authorizer}]
	ast, issues := env.Compile(p.text)
	if issues != nil {
		told.Error = "compilation failed: " + oneLine(issues.String())
		return told
	}
	r := record(ctx, env, ast.NativeRep(), a)
	set(&told, r.value)
	if told.Error != "" || p.decides && told.Value != true {
		told.Parts = r.parts(r.expr)
	} else {
		told.Parts = r.reads()
	}
	return told
}

// inLine is an expression in one line.
func inLine(text string) string { return strings.Join(strings.Fields(text), " ") }

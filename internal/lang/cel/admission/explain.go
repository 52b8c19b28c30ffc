package admission

import (
	"context"
	"errors"
	"strings"

	"github.com/google/cel-go/common/types"

	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/jsonpatch"
	"github.com/usher-dev/usher/internal/rule"
)

// Explain evaluates the policy for a request and one object of params, and returns the expressions
// in the order of their evaluation, each with its parts and after the variables that it reads. The
// error is [*fact.Missing], that of a fact, or that of ctx. Structures are those for Mutate; nil for
// a policy without mutations.
//
// It compiles and evaluates again, with every value recorded, which takes milliseconds. It is for
// people who ask why, not for requests.
func (p *Program) Explain(ctx context.Context, in *Input, structures Structures) ([]rule.Expression, error) {
	in.context = ctx
	all, err := traceAll(&p.source)
	if err != nil {
		return nil, err
	}
	x := &explanation{traced: all, program: p, in: in, explained: map[int]bool{}, named: map[int]bool{}}
	holds, err := x.condition(ctx)
	if err == nil && holds {
		err = x.judge(ctx)
	}
	if err == nil && holds {
		err = x.mutate(ctx, structures)
	}
	return x.told, err
}

// An explanation evaluates the expressions of a policy one after the other.
type explanation struct {
	*traced

	program *Program
	in      *Input
	told    []rule.Expression
	// explained are the variables that have been told, by their index, and named the sources of data whose addresses have been.
	explained, named map[int]bool
}

// condition explains the conditions, and reports whether they hold.
func (x *explanation) condition(ctx context.Context) (holds bool, err error) {
	a := x.in.activation(x.program, withAuthorizer|asConditions)
	holds = true
	for i := range x.conditions {
		told, err := x.tell(ctx, a, &x.conditions[i])
		if err != nil {
			return false, err
		}
		holds = holds && told.Value == true
	}
	return holds, nil
}

// judge explains as [Program.Evaluate] evaluates.
func (x *explanation) judge(ctx context.Context) error {
	denied := make([]bool, len(x.validations))
	validations := x.in.activation(x.program, withNamespace|withAuthorizer)
	for i := range x.validations {
		told, err := x.tell(ctx, validations, &x.validations[i])
		if err != nil {
			return err
		}
		denied[i] = told.Value == false
	}
	messages := x.in.activation(x.program, withNamespace)
	messages.explain()
	for i := range x.messages {
		if !denied[i] || x.messages[i].text == "" {
			continue
		}
		if _, err := x.tell(ctx, messages, &x.messages[i]); err != nil {
			return err
		}
	}
	annotations := x.in.activation(x.program, withNamespace)
	for i := range x.annotations {
		if _, err := x.tell(ctx, annotations, &x.annotations[i]); err != nil {
			return err
		}
	}
	return nil
}

// mutate explains as [Program.Mutate] mutates.
func (x *explanation) mutate(ctx context.Context, structures Structures) error {
	now := *x.in
	for i := range x.mutations {
		if now.Object == nil {
			return nil
		}
		// A program of another language has no parts; what follows sees its changes.
		if x.mutations[i].text != "" {
			if _, err := x.tell(ctx, now.activation(x.program, withNamespace|withAuthorizer), &x.mutations[i]); err != nil {
				return err
			}
		}
		patch, err := x.program.mutate(ctx, &now, i, structures)
		if _, missing := errors.AsType[*fact.Missing](err); missing {
			return err
		}
		if err != nil {
			continue
		}
		if tree, _, err := jsonpatch.Apply(now.Object, patch); err == nil {
			now.Object, now.data = tree, nil
		}
	}
	return nil
}

// tell explains an expression, and before it the variables that it reads.
func (x *explanation) tell(ctx context.Context, a *activation, p *part) (rule.Expression, error) {
	told := x.explain(ctx, a, p)
	if err := interrupted(ctx, a); err != nil {
		return told, err
	}
	for i := range a.in.data {
		if !a.in.data[i].known || x.named[i] {
			continue
		}
		x.named[i] = true
		for _, of := range []*part{&x.spaces[i], &x.data[i]} {
			if of.text != "" {
				x.told = append(x.told, x.explain(ctx, a.in.naming(a.program), of))
			}
		}
	}
	for i := range a.variables.values {
		if !a.variables.has(i) || x.explained[i] {
			continue
		}
		x.explained[i] = true
		leave := a.variables.enter(i)
		x.told = append(x.told, x.explain(ctx, a, &x.variables[i]))
		leave()
	}
	x.told = append(x.told, told)
	return told, interrupted(ctx, a)
}

func (x *explanation) explain(ctx context.Context, a *activation, p *part) rule.Expression {
	told := rule.Expression{Field: p.field, Name: p.name, Text: inLine(p.text), Error: p.err}
	if p.err != "" {
		return told
	}
	if p.other != nil {
		told.Text = "(CUE program)"
		out := a.judge(ctx, p.other)
		if told.Value = out.value == types.True; out.err != nil {
			told.Value, told.Error = nil, out.err.Error()
		}
		return told
	}
	t, whole := &trace{of: x.traced, part: p, vars: a}, p.ast.NativeRep().Expr()
	set(&a.meter, &told, t.record(whole))
	if told.Error != "" || p.decides && told.Value != true {
		told.Parts = t.parts(whole)
	} else {
		told.Parts = t.reads(whole)
	}
	return told
}

// inLine is an expression in one line.
func inLine(text string) string { return strings.Join(strings.Fields(text), " ") }

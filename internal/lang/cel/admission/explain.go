package admission

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	apiservercel "k8s.io/apiserver/pkg/cel"

	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/jsonpatch"
	"github.com/usher-dev/usher/internal/lang/cel"
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
	x := &explanation{program: p, in: in, environments: takeEnvironments(), explained: map[int]bool{}, named: map[int]bool{}}
	defer x.environments.release()
	if err := x.compile(); err != nil {
		return nil, err
	}
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
	program *Program
	in      *Input
	// environments are those of all parts, which are planned as they are told.
	environments *environments
	// What is compiled of the policy.
	data, variables, conditions, validations, messages, annotations, mutations []part
	told                                                                       []rule.Expression
	// explained are the variables that have been told, by their index, and named the sources of data.
	explained, named map[int]bool
}

// A part is an expression of a policy, compiled in an environment that remembers macros.
type part struct {
	field, name, text string
	// decides says that the expression is a condition or a validation: it ought to be true.
	decides bool
	// other is a program of another language in place of the expression.
	other rule.Program
	ast   *celgo.Ast
	// recorder makes programs of the expression.
	recorder *cel.Environment
	err      string
}

// compile compiles the expressions.
func (x *explanation) compile() error {
	e := x.environments
	source := &x.program.source
	envs, err := rememberingEnvironments(e, source)
	if err != nil {
		return err
	}
	naming, texts, deciding, patching := envs[0], envs[1], envs[2], envs[3]
	budget := &cel.Budget{}
	add := func(to *[]part, env remembering, p part) *part {
		var issues *celgo.Issues
		var err error
		if p.recorder = env.recorder; p.text == "" {
			*to = append(*to, p)
			return &(*to)[len(*to)-1]
		}
		switch p.ast, issues, err = env.macros.Check(budget, p.text); {
		case err != nil:
			p.err = "compilation failed: " + err.Error()
		case issues != nil:
			p.err = "compilation failed: " + objections(p.text, issues)
		}
		*to = append(*to, p)
		return &(*to)[len(*to)-1]
	}
	for i := range source.Data {
		d := &source.Data[i]
		add(&x.data, naming, part{field: d.field(i), name: d.Name, text: d.NameExpression})
		e.data.Fields[d.Name] = required(d.Name, apiservercel.DynType)
	}
	for i, v := range source.Variables {
		compiled := add(&x.variables, deciding, part{field: fmt.Sprintf("spec.variables[%d].expression", i), name: v.Name, text: v.Expression})
		var output *celgo.Type
		if compiled.err == "" {
			output = compiled.ast.OutputType()
		}
		budget.Variable(v.Name, cmp.Or(output, celgo.DynType))
		e.variables.Fields[v.Name] = required(v.Name, declaredType(output))
	}
	for i, c := range source.Conditions {
		add(&x.conditions, deciding, part{field: fmt.Sprintf("spec.matchConditions[%d].expression", i), name: c.Name, text: c.Expression, decides: true})
	}
	for i, v := range source.Validations {
		decides := part{field: fmt.Sprintf("spec.validations[%d].expression", i), text: v.Expression, decides: true, other: v.Program}
		if v.Program != nil {
			decides.field = fmt.Sprintf("spec.validations[%d].cue", i)
		}
		add(&x.validations, deciding, decides)
		add(&x.messages, texts, part{field: fmt.Sprintf("spec.validations[%d].messageExpression", i), text: v.MessageExpression})
	}
	for i, a := range source.Annotations {
		add(&x.annotations, deciding, part{field: fmt.Sprintf("spec.auditAnnotations[%d].valueExpression", i), name: a.Key, text: a.ValueExpression})
	}
	for i, m := range source.Mutations {
		add(&x.mutations, patching, part{field: m.field(i), text: m.Expression})
	}
	return nil
}

// A remembering environment remembers macros, of which it compiles expressions for a recorder.
type remembering struct {
	macros, recorder *cel.Environment
}

// rememberingEnvironments returns those of names, messages, decisions and mutations.
func rememberingEnvironments(e *environments, s *Source) (envs [4]remembering, err error) {
	data := len(s.Data) > 0
	for i, d := range []declared{
		{}, {params: s.Params, data: data}, {params: s.Params, data: data, authorizer: true},
		{params: s.Params, data: data, authorizer: true, patchTypes: true},
	} {
		env, err := e.with(d)
		if err != nil {
			return envs, err
		}
		tracking, err := env.Extend(celgo.EnableMacroCallTracking())
		if err != nil {
			return envs, fmt.Errorf("make CEL environment: %w", err)
		}
		envs[i] = remembering{cel.Checking(tracking), env}
	}
	return envs, nil
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
	told := p.explain(ctx, a)
	if err := interrupted(ctx, a); err != nil {
		return told, err
	}
	for i := range a.in.data {
		if !a.in.data[i].known || x.named[i] || x.data[i].text == "" {
			continue
		}
		x.named[i] = true
		x.told = append(x.told, x.data[i].explain(ctx, a.in.naming(a.program)))
	}
	for i := range a.variables.values {
		if !a.variables.has(i) || x.explained[i] {
			continue
		}
		x.explained[i] = true
		leave := a.variables.enter(i)
		x.told = append(x.told, x.variables[i].explain(ctx, a))
		leave()
	}
	x.told = append(x.told, told)
	return told, interrupted(ctx, a)
}

func (p *part) explain(ctx context.Context, a *activation) rule.Expression {
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
	r := record(p.recorder, p.ast.NativeRep(), a)
	set(&a.meter, &told, r.value)
	if told.Error != "" || p.decides && told.Value != true {
		told.Parts = r.parts(r.expr)
	} else {
		told.Parts = r.reads()
	}
	return told
}

// inLine is an expression in one line.
func inLine(text string) string { return strings.Join(strings.Fields(text), " ") }

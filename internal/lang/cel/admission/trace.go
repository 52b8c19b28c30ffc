package admission

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"

	celgo "github.com/google/cel-go/cel"
	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"
	apiservercel "k8s.io/apiserver/pkg/cel"

	"github.com/usher-dev/usher/internal/lang/cel"
	"github.com/usher-dev/usher/internal/rule"
)

// A traced is the expressions of a policy as the compiler understood them. Programs do not keep that,
// and few policies need it.
type traced struct {
	spaces, data, variables, conditions, validations, messages, annotations, mutations []part
	// types are those of the fields of the variables data and variables, with which parts are planned.
	dataTypes, variableTypes map[string]*apiservercel.DeclField

	mu sync.Mutex
	// planned are programs of parts, which an audit needs for each object that fails.
	planned map[celast.Expr]*cel.Program
}

// maxPlanned is how many programs of parts a policy keeps: they take about a kilobyte each.
const maxPlanned = 32

// A part is an expression of a policy. It has no AST if there is none, or if it does not compile.
type part struct {
	field, name, text string
	// decides says that the expression is a condition or a validation: it ought to be true.
	decides bool
	// other is a program of another language in place of the expression.
	other rule.Program
	// declared are the variables that it may read.
	declared declared
	ast      *celgo.Ast
	err      string
}

// A tracing compiles the expressions of a policy again.
type tracing struct {
	*environments

	source *Code
	// deciding are the variables of what decides.
	deciding declared
	budget   cel.Budget
	traced   traced
	err      error
}

// tracingOf returns a tracing, to be released.
func tracingOf(s *Code) *tracing {
	return &tracing{environments: takeEnvironments(), source: s, deciding: declared{params: s.Params, authorizer: true, data: len(s.Data) > 0}}
}

// add compiles an expression. Its type is nil if there is none.
func (t *tracing) add(to *[]part, d declared, p part) (output *celgo.Type) {
	p.declared = d
	defer func() { *to = append(*to, p) }()
	if p.text == "" {
		return nil
	}
	env, err := t.with(d)
	if err != nil {
		t.err = err
		return nil
	}
	ast, issues, err := env.Check(&t.budget, p.text)
	switch {
	case err != nil:
		p.err = "compilation failed: " + err.Error()
	case issues != nil:
		p.err = "compilation failed: " + objections(p.text, issues)
	default:
		p.ast, output = ast, ast.OutputType()
	}
	return output
}

// named compiles the variables, after which others can read them.
func (t *tracing) named() {
	for i := range t.source.Data {
		t.data.Fields[t.source.Data[i].Name] = required(t.source.Data[i].Name, apiservercel.DynType)
	}
	for i, v := range t.source.Variables {
		output := t.add(&t.traced.variables, t.deciding, part{field: fmt.Sprintf("spec.variables[%d].expression", i), name: v.Name, text: v.Expression})
		t.budget.Variable(v.Name, cmp.Or(output, celgo.DynType))
		t.variables.Fields[v.Name] = required(v.Name, declaredType(output))
	}
	t.traced.dataTypes, t.traced.variableTypes = maps.Clone(t.data.Fields), maps.Clone(t.variables.Fields)
}

func (t *tracing) validation(i int) {
	v := &t.source.Validations[i]
	p := part{field: fmt.Sprintf("spec.validations[%d].expression", i), text: v.Expression, decides: true, other: v.Program}
	if v.Program != nil {
		p.field = fmt.Sprintf("spec.validations[%d].cue", i)
	}
	t.add(&t.traced.validations, t.deciding, p)
}

// traceDecisions compiles the variables and validations of a policy; it returns nil if that is impossible.
func traceDecisions(s *Code) *traced {
	t := tracingOf(s)
	defer t.release()
	t.named()
	for i := range s.Validations {
		t.validation(i)
	}
	if t.err != nil {
		return nil
	}
	return &t.traced
}

// traceAll compiles all expressions of a policy, with the macros as they are written.
func traceAll(s *Code) (*traced, error) {
	t := tracingOf(s)
	defer t.release()
	t.deciding.macros = true
	for i := range s.Data {
		d := &s.Data[i]
		t.add(&t.traced.spaces, declared{macros: true}, part{field: d.field(i, namespaceExpression), name: d.Name, text: d.NamespaceExpression})
		t.add(&t.traced.data, declared{macros: true}, part{field: d.field(i, nameExpression), name: d.Name, text: d.NameExpression})
	}
	t.named()
	for i, c := range s.Conditions {
		t.add(&t.traced.conditions, t.deciding, part{field: fmt.Sprintf("spec.matchConditions[%d].expression", i), name: c.Name, text: c.Expression, decides: true})
	}
	texts, patching := t.deciding, t.deciding
	texts.authorizer, patching.patchTypes = false, true
	for i, v := range s.Validations {
		t.validation(i)
		t.add(&t.traced.messages, texts, part{field: fmt.Sprintf("spec.validations[%d].messageExpression", i), text: v.MessageExpression})
	}
	for i, a := range s.Annotations {
		t.add(&t.traced.annotations, t.deciding, part{field: fmt.Sprintf("spec.auditAnnotations[%d].valueExpression", i), name: a.Key, text: a.ValueExpression})
	}
	for i, m := range s.Mutations {
		t.add(&t.traced.mutations, patching, part{field: m.field(i), text: m.Expression})
	}
	return &t.traced, t.err
}

// variable returns the variable that a name means, nil if there is none.
func (t *traced) variable(name string) *part {
	for i, v := range slices.Backward(t.variables) {
		if v.name == name {
			return &t.variables[i]
		}
	}
	return nil
}

// plan makes a program of a part of an expression.
func (t *traced) plan(of *part, e celast.Expr) (*cel.Program, error) {
	t.mu.Lock()
	known := t.planned[e]
	t.mu.Unlock()
	if known != nil {
		return known, nil
	}
	planned, err := planIn(t, of, func(env *cel.Environment) (*cel.Program, error) { return env.PlanPart(of.ast, e) })
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.planned == nil {
		t.planned = map[celast.Expr]*cel.Program{}
	}
	if len(t.planned) < maxPlanned {
		t.planned[e] = planned
	}
	return planned, nil
}

// planIn makes a program in the environment of an expression. Planning reads the types of the environment,
// which nobody else may change meanwhile.
func planIn[P any](t *traced, of *part, plan func(*cel.Environment) (P, error)) (planned P, err error) {
	e := takeEnvironments()
	defer e.release()
	maps.Copy(e.data.Fields, t.dataTypes)
	maps.Copy(e.variables.Fields, t.variableTypes)
	env, err := e.with(of.declared)
	if err != nil {
		return planned, err
	}
	if planned, err = plan(env); err != nil {
		return planned, fmt.Errorf("program instantiation failed: %w", err)
	}
	return planned, nil
}

// A trace is an evaluation of an expression: the values of its parts, and what the names in it mean.
type trace struct {
	of   *traced
	part *part
	// vars is nil if there are no values, as for items of a list none of which decides.
	vars   cel.Variables
	locals *local
	// state are the values that were recorded; nil if none were.
	state interpreter.EvalState
	// search, unless nil, limits what is evaluated.
	search *search
}

// A local is a variable of a loop, or one of cel.bind, which has an alias.
type local struct {
	name   string
	place  place
	alias  celast.Expr
	within finder
	outer  *local
}

func (t *trace) local(name string) *local {
	for l := t.locals; l != nil; l = l.outer {
		if l.name == name {
			return l
		}
	}
	return nil
}

// with returns the trace of a part that sees more variables, which have values if there are any.
func (t *trace) with(values map[string]any, locals ...local) *trace {
	inner := &trace{of: t.of, part: t.part, locals: t.locals, search: t.search}
	for i := range locals {
		locals[i].outer = inner.locals
		inner.locals = &locals[i]
	}
	if t.vars != nil && values != nil {
		inner.vars = &loopVariables{t.vars, values}
	}
	return inner
}

// record evaluates a part of the expression and keeps the values of its own parts.
func (t *trace) record(e celast.Expr) ref.Val {
	t.state = interpreter.NewEvalState()
	program, err := planIn(t.of, t.part, func(env *cel.Environment) (*cel.Recorder, error) { return env.Record(t.part.ast.NativeRep(), e) })
	if err != nil {
		return types.WrapErr(err)
	}
	var value ref.Val
	if err := attempt(t.vars.Meter(), func() (err error) {
		var state interpreter.EvalState
		if value, state, err = program.Eval(t.vars); state != nil {
			t.state = state
		}
		return err
	}); err != nil && value == nil {
		value = types.WrapErr(err)
	}
	return value
}

// value returns the value of a part of the expression, nil if it is not known. Not all are recorded: the
// operands of ?: are not if they are names.
func (t *trace) value(e celast.Expr) ref.Val {
	if t.state != nil {
		if value, ok := t.state.Value(e.ID()); ok {
			return value
		}
	}
	if t.vars == nil || t.search.exhausted() {
		return nil
	}
	program, err := t.of.plan(t.part, e)
	if err != nil {
		return types.WrapErr(err)
	}
	return t.run(program)
}

// run evaluates a program; the value is nil if too many were.
func (t *trace) run(program *cel.Program) ref.Val {
	if !t.search.evaluate() {
		return nil
	}
	var value ref.Val
	if err := attempt(t.vars.Meter(), func() (err error) {
		value, _, err = program.Eval(t.vars)
		return err
	}); err != nil {
		return types.WrapErr(err)
	}
	return value
}

// each evaluates the body of a loop for the items of its list, until do returns false.
func (t *trace) each(c celast.ComprehensionExpr, list ref.Val, body celast.Expr, do func(item *entry, value ref.Val, inner *trace) bool) {
	program, err := t.of.plan(t.part, body)
	if err != nil {
		return
	}
	all := entriesOf(list)
	for i := range all {
		item := &all[i]
		bound, locals := map[string]any{c.IterVar(): item.first(c)}, []local{{name: c.IterVar()}}
		if c.HasIterVar2() {
			bound[c.IterVar2()] = item.value
			locals = append(locals, local{name: c.IterVar2()})
		}
		inner := t.with(bound, locals...)
		if value := inner.run(program); value == nil || !do(item, value, inner) {
			return
		}
	}
}

// An entry is an item of a list or map.
type entry struct {
	key, value ref.Val
	index      int
	isMap      bool
}

// at is where the item is, as it is written in brackets.
func (e *entry) at() string {
	if e.isMap {
		return fmt.Sprintf("%q", fmt.Sprint(e.key.Value()))
	}
	return fmt.Sprint(e.index)
}

// first is the value of the first variable of a loop: the key if there are two, or in a map.
func (e *entry) first(c celast.ComprehensionExpr) ref.Val {
	if c.HasIterVar2() || e.isMap {
		return e.key
	}
	return e.value
}

// maxTried is how many items of a list are tried to find the one that decided.
const maxTried = 1000

// entriesOf are the first items of a list or map.
func entriesOf(v ref.Val) []entry {
	var all []entry
	switch v := v.(type) {
	case traits.Mapper:
		for it := v.Iterator(); it.HasNext() == types.True && len(all) < maxTried; {
			key := it.Next()
			all = append(all, entry{key: key, value: v.Get(key), index: len(all), isMap: true})
		}
	case traits.Lister:
		for it := v.Iterator(); it.HasNext() == types.True && len(all) < maxTried; {
			all = append(all, entry{key: types.Int(len(all)), value: it.Next(), index: len(all)})
		}
	}
	return all
}

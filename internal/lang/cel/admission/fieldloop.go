package admission

import (
	"cmp"
	"fmt"
	"maps"
	"sync"

	celgo "github.com/google/cel-go/cel"
	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	apiservercel "k8s.io/apiserver/pkg/cel"

	"github.com/usher-dev/usher/internal/lang/cel"
)

// A traced is the expressions of a policy as the compiler understood them. Programs do not keep that,
// and few policies need it.
type traced struct {
	declared declared
	// types are those of the fields of the variables data and variables, with which parts are planned.
	dataTypes, variableTypes map[string]*apiservercel.DeclField
	variables                map[string]*celgo.Ast
	// validations has nil for what is no expression, or does not compile.
	validations []*celgo.Ast

	mu sync.Mutex
	// planned are programs of parts, which an audit needs for each object that fails.
	planned map[celast.Expr]*cel.Program
}

// maxPlanned is how many programs of parts a policy keeps: they take about a kilobyte each.
const maxPlanned = 32

// trace compiles the variables and validations of a policy; it returns nil if that is impossible.
func trace(s *Source) *traced {
	e := takeEnvironments()
	defer e.release()
	names := declared{params: s.Params, authorizer: true, data: len(s.Data) > 0}
	env, err := e.with(names)
	if err != nil {
		return nil
	}
	budget := &cel.Budget{}
	compile := func(text string) *celgo.Ast {
		if text == "" {
			return nil
		}
		ast, issues, err := env.Check(budget, text)
		if err != nil || issues.Err() != nil {
			return nil
		}
		return ast
	}
	t := &traced{declared: names, variables: map[string]*celgo.Ast{}}
	for i := range s.Data {
		e.data.Fields[s.Data[i].Name] = required(s.Data[i].Name, apiservercel.DynType)
	}
	for _, v := range s.Variables {
		var output *celgo.Type
		if t.variables[v.Name] = compile(v.Expression); t.variables[v.Name] != nil {
			output = t.variables[v.Name].OutputType()
		}
		budget.Variable(v.Name, cmp.Or(output, celgo.DynType))
		e.variables.Fields[v.Name] = required(v.Name, declaredType(output))
	}
	for i := range s.Validations {
		t.validations = append(t.validations, compile(s.Validations[i].Expression))
	}
	t.dataTypes, t.variableTypes = maps.Clone(e.data.Fields), maps.Clone(e.variables.Fields)
	return t
}

// plan makes a program of a part of an expression.
func (t *traced) plan(of *celgo.Ast, part celast.Expr) (*cel.Program, error) {
	t.mu.Lock()
	known := t.planned[part]
	t.mu.Unlock()
	if known != nil {
		return known, nil
	}
	e := takeEnvironments()
	defer e.release()
	maps.Copy(e.data.Fields, t.dataTypes)
	maps.Copy(e.variables.Fields, t.variableTypes)
	// Planning reads the types of the environment, which nobody else may change meanwhile.
	env, err := e.with(t.declared)
	if err != nil {
		return nil, err
	}
	planned, err := env.PlanPart(of, part)
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.planned == nil {
		t.planned = map[celast.Expr]*cel.Program{}
	}
	if len(t.planned) < maxPlanned {
		t.planned[part] = planned
	}
	return planned, nil
}

// A scope is what the names in an expression mean.
type scope struct {
	ast *celgo.Ast
	// vars is nil if there are no values, as for items of a list none of which decides.
	vars   cel.Variables
	locals *local
}

// A local is a variable of a loop, or one of cel.bind, which has an alias.
type local struct {
	name   string
	place  place
	alias  celast.Expr
	within *scope
	outer  *local
}

func (s *scope) local(name string) *local {
	for l := s.locals; l != nil; l = l.outer {
		if l.name == name {
			return l
		}
	}
	return nil
}

// with returns the scope with more variables that have values.
func (s *scope) with(values map[string]any, locals ...local) *scope {
	inner := &scope{ast: s.ast, locals: s.locals}
	for i := range locals {
		locals[i].outer = inner.locals
		inner.locals = &locals[i]
	}
	if s.vars == nil || values == nil {
		return inner
	}
	inner.vars = &loopVariables{s.vars, values}
	return inner
}

// run evaluates a program; the value is nil if too many were.
func (f *finder) run(program *cel.Program, vars cel.Variables) ref.Val {
	if f.evaluations++; f.evaluations > maxEvaluations {
		return nil
	}
	value, _, err := program.Eval(vars)
	if err != nil {
		return types.WrapErr(err)
	}
	return value
}

// parts are the parts of an expression in which a field is looked for.
func parts(e celast.Expr) []celast.Expr {
	if e.Kind() == celast.ComprehensionKind {
		return nil
	}
	return cel.Parts(e)
}

// binds reports whether a loop is what cel.bind became.
func binds(c celast.ComprehensionExpr) bool {
	never := c.LoopCondition()
	return c.IterRange().Kind() == celast.ListKind && c.IterRange().AsList().Size() == 0 &&
		never.Kind() == celast.LiteralKind && never.AsLiteral() == types.False
}

// bind returns the scope of the result of cel.bind.
func (f *finder) bind(c celast.ComprehensionExpr, s *scope) *scope {
	var values map[string]any
	if value := f.value(c.AccuInit(), s); value != nil {
		values = map[string]any{c.AccuVar(): value}
	}
	return s.with(values, local{name: c.AccuVar(), alias: c.AccuInit(), within: s})
}

// loop finds what a macro reads: the item that decided its value, or the list.
func (f *finder) loop(e celast.Expr, s *scope) place {
	c := e.AsComprehension()
	if found := f.decided(e, s); found.path != "" {
		return found
	}
	if over := f.find(c.IterRange(), s); over.path != "" {
		return over
	}
	// Which of the items is wrong is not known, but all may read the same field of the object.
	return f.find(c.LoopStep(), s.with(nil, local{name: c.IterVar()}, local{name: c.IterVar2()}, local{name: c.AccuVar()}))
}

// decided finds the first item for which the body of all is false, or that of exists is true.
func (f *finder) decided(e celast.Expr, s *scope) place {
	c := e.AsComprehension()
	step := c.LoopStep()
	if step.Kind() != celast.CallKind {
		return place{}
	}
	var decides ref.Val
	switch step.AsCall().FunctionName() {
	case operators.LogicalAnd:
		decides = types.False
	case operators.LogicalOr:
		decides = types.True
	default:
		return place{}
	}
	value := f.value(e, s)
	if value == nil || value != decides && !types.IsError(value) {
		return place{}
	}
	return f.first(c, step.AsCall().Args()[1], s, func(v ref.Val) bool {
		return v == decides || types.IsError(value) && types.IsError(v)
	}, f.find)
}

// each evaluates an expression for the items of a loop, until do returns false.
func (f *finder) each(c celast.ComprehensionExpr, body celast.Expr, s *scope, do func(celast.Expr, place, ref.Val, *scope) bool) {
	list := f.value(c.IterRange(), s)
	if list == nil {
		return
	}
	program, err := f.traced.plan(s.ast, body)
	if err != nil {
		return
	}
	places := f.items(c.IterRange(), s, list)
	for i, item := range entriesOf(list) {
		var at place
		if i < len(places) {
			at = places[i]
		}
		bound, locals := map[string]any{c.IterVar(): item.first(c)}, []local{{name: c.IterVar()}}
		switch {
		case c.HasIterVar2():
			bound[c.IterVar2()] = item.value
			locals = append(locals, local{name: c.IterVar2(), place: at})
		case !item.isMap:
			locals[0].place = at
		}
		inner := s.with(bound, locals...)
		if inner.vars == nil {
			return
		}
		value := f.run(program, inner.vars)
		if value == nil || !do(body, at, value, inner) {
			return
		}
	}
}

// items returns where the items of a list are in the object. What is in a map is in the map: its
// keys are not told.
func (f *finder) items(e celast.Expr, s *scope, list ref.Val) []place {
	if !f.step() {
		return nil
	}
	sizer, ok := list.(traits.Sizer)
	if !ok {
		return nil
	}
	size, _ := sizer.Size().(types.Int)
	places := make([]place, max(0, min(size, maxTried)))
	if at := f.place(e, s); at.known {
		_, isMap := list.(traits.Mapper)
		for i := range places {
			if places[i] = at.item(i); isMap {
				places[i] = place{path: at.path, known: true, ends: true}
			}
		}
		return places
	}
	if alias, within := f.alias(e, s); alias != nil {
		return f.items(alias, within, list)
	}
	switch e.Kind() {
	case celast.ListKind:
		for i, item := range e.AsList().Elements()[:min(len(places), e.AsList().Size())] {
			places[i] = f.place(item, s)
		}
	case celast.ComprehensionKind:
		f.made(places, e.AsComprehension(), s)
	case celast.CallKind:
		args := e.AsCall().Args()
		switch e.AsCall().FunctionName() {
		case operators.Conditional:
			if branch := f.branch(e, s); branch != nil {
				return f.items(branch, s, list)
			}
		case operators.Add:
			left, right := f.value(args[0], s), f.value(args[1], s)
			if left != nil && right != nil {
				first := copy(places, f.items(args[0], s, left))
				copy(places[first:], f.items(args[1], s, right))
			}
		case "flatten":
			f.flattened(places, e.AsCall().Target(), s)
		}
	}
	return places
}

// made fills in where the items of a list come from that filter or map made.
func (f *finder) made(places []place, c celast.ComprehensionExpr, s *scope) {
	step := c.LoopStep()
	if step.Kind() != celast.CallKind {
		return
	}
	n := 0
	add := func(at place) bool {
		if n < len(places) {
			places[n] = at
			n++
		}
		return n < len(places)
	}
	args := step.AsCall().Args()
	made, filters := bodyOf(step), step.AsCall().FunctionName() == operators.Conditional
	if filters {
		made = bodyOf(args[1])
	} else if step.AsCall().FunctionName() != operators.Add {
		return
	}
	if made == nil {
		return
	}
	each := made
	if filters {
		each = args[0]
	}
	f.each(c, each, s, func(_ celast.Expr, at place, v ref.Val, inner *scope) bool {
		if filters && v != types.True {
			return true
		}
		if found := f.place(made, inner); found.known {
			at = found
		}
		return add(at)
	})
}

// item is the place of an item of a list.
func (p place) item(i int) place {
	if p.known && !p.ends {
		p.path += fmt.Sprintf("[%d]", i)
	}
	return p
}

package admission

import (
	"fmt"
	"slices"

	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
	"github.com/google/cel-go/parser"

	"github.com/usher-dev/usher/internal/lang/cel"
	"github.com/usher-dev/usher/internal/rule"
)

// A recording is an expression that was evaluated, with the values of its parts.
type recording struct {
	env   *cel.Environment
	ast   *celast.AST
	expr  celast.Expr
	vars  cel.Variables
	value ref.Val
	state interpreter.EvalState
	// locals are the variables of the loops around the expression.
	locals []string
}

// record evaluates an expression.
func record(env *cel.Environment, ast *celast.AST, vars cel.Variables) *recording {
	r := &recording{env: env, ast: ast, expr: ast.Expr(), vars: vars, state: interpreter.NewEvalState()}
	program, err := r.plan(r.expr)
	if err != nil {
		r.value = types.WrapErr(err)
		return r
	}
	r.run(program)
	return r
}

// plan makes a program of a part of the expression.
func (r *recording) plan(e celast.Expr) (*cel.Recorder, error) {
	program, err := r.env.Record(r.ast, e)
	if err != nil {
		return nil, fmt.Errorf("program instantiation failed: %w", err)
	}
	return program, nil
}

func (r *recording) run(program *cel.Recorder) {
	value, state := program.Eval(r.vars)
	if r.value = value; state != nil {
		r.state = state
	}
}

// of returns the value of a part that was evaluated. Not all are recorded: the operands of ?: are
// not if they are names.
func (r *recording) of(e celast.Expr) ref.Val {
	if value, ok := r.state.Value(e.ID()); ok {
		return value
	}
	program, err := r.plan(e)
	if err != nil {
		return types.WrapErr(err)
	}
	value, _ := program.Eval(r.vars)
	return value
}

// text is a part as one writes it.
func (r *recording) text(e celast.Expr) string {
	text, err := parser.Unparse(e, r.ast.SourceInfo())
	if err != nil {
		return "(an expression)"
	}
	return inLine(text)
}

// nodes returns a part with its own parts. What has no value that can be shown is replaced by
// them, and what is always the same is left out.
func (r *recording) nodes(e celast.Expr) []rule.Expression {
	if isConstant(e) {
		return nil
	}
	parts := r.parts(e)
	told := rule.Expression{Text: r.text(e), Parts: parts}
	if !set(r.vars.Meter(), &told, r.of(e)) {
		return parts
	}
	return []rule.Expression{told}
}

// isConstant reports whether an expression reads no variable.
func isConstant(e celast.Expr) bool {
	switch e.Kind() {
	case celast.IdentKind, celast.ComprehensionKind:
		return false
	}
	return !slices.ContainsFunc(cel.Parts(e), func(part celast.Expr) bool { return !isConstant(part) })
}

func (r *recording) all(es ...celast.Expr) []rule.Expression {
	var told []rule.Expression
	for _, e := range es {
		told = append(told, r.nodes(e)...)
	}
	return told
}

// skipped returns a part that was not evaluated.
func (r *recording) skipped(e celast.Expr) []rule.Expression {
	if isConstant(e) {
		return nil
	}
	return []rule.Expression{{Text: r.text(e), Unevaluated: true}}
}

// parts returns the parts of an expression that was evaluated.
func (r *recording) parts(e celast.Expr) []rule.Expression {
	if keys, ok := r.path(e); ok {
		return r.all(keys...)
	}
	switch e.Kind() {
	case celast.SelectKind:
		return r.nodes(e.AsSelect().Operand())
	case celast.CallKind:
		return r.call(e)
	case celast.ListKind, celast.MapKind, celast.StructKind:
		return r.all(cel.Parts(e)...)
	case celast.ComprehensionKind:
		return r.loop(e)
	}
	return nil
}

func (r *recording) call(e celast.Expr) []rule.Expression {
	call := e.AsCall()
	args := call.Args()
	switch call.FunctionName() {
	case operators.LogicalAnd:
		return r.operands(e, types.False)
	case operators.LogicalOr:
		return r.operands(e, types.True)
	case operators.Conditional:
		if _, macro := r.ast.SourceInfo().GetMacroCall(e.ID()); macro {
			// It is optMap, whose branches repeat its operand.
			return r.all(args[0])
		}
		told := r.nodes(args[0])
		for i, taken := range []types.Bool{types.True, types.False} {
			if r.of(args[0]) == taken {
				told = append(told, r.nodes(args[i+1])...)
			} else {
				told = append(told, r.skipped(args[i+1])...)
			}
		}
		return told
	case "or", "orValue":
		if call.IsMemberFunction() && len(args) == 1 {
			told := r.nodes(call.Target())
			if o, ok := r.of(call.Target()).(*types.Optional); ok && o.HasValue() {
				return append(told, r.skipped(args[0])...)
			}
			return append(told, r.nodes(args[0])...)
		}
	}
	if call.IsMemberFunction() {
		return append(r.nodes(call.Target()), r.all(args...)...)
	}
	return r.all(args...)
}

// operands returns the operands of a chain of && or ||, up to the one whose value ends it.
func (r *recording) operands(e celast.Expr, end types.Bool) []rule.Expression {
	var told []rule.Expression
	ended := false
	for _, operand := range flat(e, e.AsCall().FunctionName()) {
		if ended {
			told = append(told, r.skipped(operand)...)
			continue
		}
		told = append(told, r.nodes(operand)...)
		ended = r.of(operand) == end
	}
	return told
}

// flat returns the operands of calls of one operator within another.
func flat(e celast.Expr, operator string) []celast.Expr {
	if e.Kind() != celast.CallKind || e.AsCall().FunctionName() != operator {
		return []celast.Expr{e}
	}
	var all []celast.Expr
	for _, arg := range e.AsCall().Args() {
		all = append(all, flat(arg, operator)...)
	}
	return all
}

// path reports whether an expression only selects from a variable, and returns the keys that it
// computes for that.
func (r *recording) path(e celast.Expr) (keys []celast.Expr, ok bool) {
	switch e.Kind() {
	case celast.IdentKind:
		return nil, true
	case celast.SelectKind:
		return r.path(e.AsSelect().Operand())
	case celast.CallKind:
		call := e.AsCall()
		if !slices.Contains([]string{operators.Index, operators.OptIndex, operators.OptSelect}, call.FunctionName()) {
			return nil, false
		}
		if keys, ok = r.path(call.Args()[0]); !ok {
			return nil, false
		}
		return append(keys, call.Args()[1]), true
	}
	return nil, false
}

// root is the variable from which a path selects.
func root(e celast.Expr) string {
	for {
		switch e.Kind() {
		case celast.IdentKind:
			return e.AsIdent()
		case celast.SelectKind:
			e = e.AsSelect().Operand()
		case celast.CallKind:
			e = e.AsCall().Args()[0]
		default:
			return ""
		}
	}
}

// reads returns what the expression has read of variables that are not its own.
func (r *recording) reads() []rule.Expression {
	var told []rule.Expression
	seen := map[string]bool{}
	var visit func(e celast.Expr, locals []string)
	visit = func(e celast.Expr, locals []string) {
		if e.Kind() == celast.ComprehensionKind {
			c := e.AsComprehension()
			visit(c.IterRange(), locals)
			locals = append(slices.Clone(locals), c.IterVar(), c.IterVar2(), c.AccuVar())
			for _, part := range []celast.Expr{c.LoopCondition(), c.LoopStep(), c.Result()} {
				visit(part, locals)
			}
			return
		}
		keys, ok := r.path(e)
		if !ok {
			for _, part := range cel.Parts(e) {
				visit(part, locals)
			}
			return
		}
		for _, key := range keys {
			visit(key, locals)
		}
		value, evaluated := r.state.Value(e.ID())
		if !evaluated || slices.Contains(locals, root(e)) {
			return
		}
		read := rule.Expression{Text: r.text(e)}
		if set(r.vars.Meter(), &read, value) && !seen[read.Text] && e.ID() != r.expr.ID() {
			seen[read.Text] = true
			told = append(told, read)
		}
	}
	visit(r.expr, nil)
	return told
}

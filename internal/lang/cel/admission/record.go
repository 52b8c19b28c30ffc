package admission

import (
	"slices"

	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/parser"

	"github.com/usher-dev/usher/internal/lang/cel"
	"github.com/usher-dev/usher/internal/rule"
)

// text is a part as one writes it.
func (t *trace) text(e celast.Expr) string {
	text, err := parser.Unparse(e, t.part.ast.NativeRep().SourceInfo())
	if err != nil {
		return "(an expression)"
	}
	return inLine(text)
}

// nodes returns a part with its own parts. What has no value that can be shown is replaced by
// them, and what is always the same is left out.
func (t *trace) nodes(e celast.Expr) []rule.Expression {
	if isConstant(e) {
		return nil
	}
	parts := t.parts(e)
	told := rule.Expression{Text: t.text(e), Parts: parts}
	if !set(t.vars.Meter(), &told, t.value(e)) {
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

func (t *trace) all(es ...celast.Expr) []rule.Expression {
	var told []rule.Expression
	for _, e := range es {
		told = append(told, t.nodes(e)...)
	}
	return told
}

// skipped returns a part that was not evaluated.
func (t *trace) skipped(e celast.Expr) []rule.Expression {
	if isConstant(e) {
		return nil
	}
	return []rule.Expression{{Text: t.text(e), Unevaluated: true}}
}

// parts returns the parts of an expression that was evaluated.
func (t *trace) parts(e celast.Expr) []rule.Expression {
	if variable, keys := pathOf(e); variable != "" {
		return t.all(keys...)
	}
	switch e.Kind() {
	case celast.SelectKind:
		return t.nodes(e.AsSelect().Operand())
	case celast.CallKind:
		return t.call(e)
	case celast.ListKind, celast.MapKind, celast.StructKind:
		return t.all(cel.Parts(e)...)
	case celast.ComprehensionKind:
		return t.loop(e)
	}
	return nil
}

func (t *trace) call(e celast.Expr) []rule.Expression {
	call := e.AsCall()
	args := call.Args()
	switch call.FunctionName() {
	case operators.LogicalAnd:
		return t.operands(e, types.False)
	case operators.LogicalOr:
		return t.operands(e, types.True)
	case operators.Conditional:
		if _, macro := t.part.ast.NativeRep().SourceInfo().GetMacroCall(e.ID()); macro {
			// It is optMap, whose branches repeat its operand.
			return t.all(args[0])
		}
		told := t.nodes(args[0])
		for i, taken := range []types.Bool{types.True, types.False} {
			if t.value(args[0]) == taken {
				told = append(told, t.nodes(args[i+1])...)
			} else {
				told = append(told, t.skipped(args[i+1])...)
			}
		}
		return told
	case "or", "orValue":
		if call.IsMemberFunction() && len(args) == 1 {
			told := t.nodes(call.Target())
			if o, ok := t.value(call.Target()).(*types.Optional); ok && o.HasValue() {
				return append(told, t.skipped(args[0])...)
			}
			return append(told, t.nodes(args[0])...)
		}
	}
	if call.IsMemberFunction() {
		return append(t.nodes(call.Target()), t.all(args...)...)
	}
	return t.all(args...)
}

// operands returns the operands of a chain of && or ||, up to the one whose value ends it.
func (t *trace) operands(e celast.Expr, end types.Bool) []rule.Expression {
	var told []rule.Expression
	ended := false
	for _, operand := range flat(e, e.AsCall().FunctionName()) {
		if ended {
			told = append(told, t.skipped(operand)...)
			continue
		}
		told = append(told, t.nodes(operand)...)
		ended = t.value(operand) == end
	}
	return told
}

// flat returns the operands of calls of one operator within another.
func flat(e celast.Expr, operator string) []celast.Expr {
	if e.AsCall().FunctionName() != operator {
		return []celast.Expr{e}
	}
	var all []celast.Expr
	for _, arg := range e.AsCall().Args() {
		all = append(all, flat(arg, operator)...)
	}
	return all
}

// pathOf returns the variable from which an expression selects, and the keys that it computes for that. The
// variable is empty if the expression does more.
func pathOf(e celast.Expr) (variable string, keys []celast.Expr) {
	operand, key := cel.Selected(e)
	if operand == nil {
		return e.AsIdent(), nil
	}
	if variable, keys = pathOf(operand); key != nil {
		keys = append(keys, key)
	}
	return variable, keys
}

// reads returns what an expression that was recorded has read of variables that are not its own.
func (t *trace) reads(whole celast.Expr) []rule.Expression {
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
		variable, keys := pathOf(e)
		if variable == "" {
			for _, part := range cel.Parts(e) {
				visit(part, locals)
			}
			return
		}
		for _, key := range keys {
			visit(key, locals)
		}
		value, evaluated := t.state.Value(e.ID())
		if !evaluated || slices.Contains(locals, variable) {
			return
		}
		read := rule.Expression{Text: t.text(e)}
		if set(t.vars.Meter(), &read, value) && !seen[read.Text] && e.ID() != whole.ID() {
			seen[read.Text] = true
			told = append(told, read)
		}
	}
	visit(whole, nil)
	return told
}

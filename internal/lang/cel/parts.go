package cel

import (
	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
)

// Parts returns the expressions directly below an expression, in the order in which they are
// written. Those of a loop are its range, and what it became.
func Parts(e celast.Expr) []celast.Expr {
	var parts []celast.Expr
	switch e.Kind() {
	case celast.SelectKind:
		parts = []celast.Expr{e.AsSelect().Operand()}
	case celast.CallKind:
		if e.AsCall().IsMemberFunction() {
			parts = []celast.Expr{e.AsCall().Target()}
		}
		parts = append(parts, e.AsCall().Args()...)
	case celast.ListKind:
		parts = e.AsList().Elements()
	case celast.MapKind:
		for _, entry := range e.AsMap().Entries() {
			parts = append(parts, entry.AsMapEntry().Key(), entry.AsMapEntry().Value())
		}
	case celast.StructKind:
		for _, field := range e.AsStruct().Fields() {
			parts = append(parts, field.AsStructField().Value())
		}
	case celast.ComprehensionKind:
		c := e.AsComprehension()
		parts = []celast.Expr{c.IterRange(), c.AccuInit(), c.LoopCondition(), c.LoopStep(), c.Result()}
	case celast.IdentKind, celast.LiteralKind, celast.UnspecifiedExprKind:
	}
	return parts
}

// Selected returns the expression from whose value an expression selects a part, nil if it does something
// else. The key is nil for a field.
func Selected(e celast.Expr) (operand, key celast.Expr) {
	if e.Kind() == celast.SelectKind {
		return e.AsSelect().Operand(), nil
	}
	switch args := e.AsCall().Args(); e.AsCall().FunctionName() {
	case operators.Index, operators.OptIndex, operators.OptSelect:
		return args[0], args[1]
	}
	return nil, nil
}

package cel

import celast "github.com/google/cel-go/common/ast"

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

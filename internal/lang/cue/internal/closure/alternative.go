package closure

import (
	"slices"

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/token"

	"github.com/usher-dev/usher/internal/lang/cue/internal/syntax"
)

// disjunction translates alternatives, of which one may be marked as the default. Absent ones are
// ignored.
func (t *translator) disjunction(b *ast.BinaryExpr, in *env) code {
	t.long = true
	var values []code
	marked := -1
	for _, operand := range syntax.Operands(b, token.OR) {
		if u, ok := operand.(*ast.UnaryExpr); ok && u.Op == token.MUL {
			if marked >= 0 {
				return t.cannot(b, "it has several defaults")
			}
			marked = len(values)
			operand = u.X
		}
		values = append(values, t.alternative(operand, in))
	}
	if hasParentheses(b) {
		return t.cannot(b, "it has alternatives within alternatives")
	}
	return func(m *machine, f *frame) (any, status) {
		var value any
		found, total := false, 0
		for i, alternative := range values {
			v, s := alternative(m, f)
			switch {
			case s == absent:
				continue
			case s != known:
				return nil, unclear
			}
			total++
			if i == marked || marked < 0 {
				value, found = v, true
			}
		}
		switch {
		case total == 1 && found:
			return value, known
		case total > 1 && marked >= 0 && found:
			if _, ok := value.(open); ok {
				return nil, unclear
			}
			return value, choice
		case total == 1:
			return m.only(values, f)
		}
		return nil, unclear
	}
}

// only returns the single value that exists.
func (m *machine) only(values []code, f *frame) (any, status) {
	for _, value := range values {
		if v, s := value(m, f); s != absent {
			return v, s
		}
	}
	return nil, unclear
}

// alternative translates one alternative of a disjunction, which may be a scalar type.
func (t *translator) alternative(x ast.Expr, in *env) code {
	if id, ok := x.(*ast.Ident); ok && id.Node == nil && slices.Contains([]string{"string", "int", "number", "bool"}, id.Name) {
		return func(*machine, *frame) (any, status) { return open{}, known }
	}
	return t.expr(x, in)
}

// hasParentheses reports whether an alternative is in turn a disjunction.
func hasParentheses(b *ast.BinaryExpr) bool {
	nested := func(x ast.Expr) bool {
		if u, ok := x.(*ast.UnaryExpr); ok && u.Op == token.MUL {
			x = u.X
		}
		p, ok := x.(*ast.ParenExpr)
		for ok {
			x = p.X
			p, ok = x.(*ast.ParenExpr)
			if inner, isBinary := x.(*ast.BinaryExpr); isBinary && inner.Op == token.OR {
				return true
			}
			if u, isUnary := x.(*ast.UnaryExpr); isUnary && u.Op == token.MUL {
				return true
			}
		}
		return false
	}
	if nested(b.X) || nested(b.Y) {
		return true
	}
	left, ok := b.X.(*ast.BinaryExpr)
	return ok && left.Op == token.OR && hasParentheses(left)
}

package cue

import (
	"fmt"

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/token"

	"github.com/usher-dev/usher/lang/cue/internal/syntax"
)

// assume returns the scope of what is evaluated only if a condition holds, and whether
// it can hold. It understands comparisons of paths with numbers, which is how a source
// keeps numbers of the input within bounds.
func (e *estimate) assume(condition ast.Expr, in *scope) (*scope, bool) {
	for _, operand := range syntax.Operands(condition, token.LAND) {
		b, ok := operand.(*ast.BinaryExpr)
		if !ok {
			continue
		}
		x, y := e.eval(b.X, in), e.eval(b.Y, in)
		if x, y := only(x), only(y); x != nil && y != nil && !compares(b.Op, x.signed, y.signed) {
			return in, false
		}
		if y := only(y); y != nil && len(x.alts) > 0 {
			if path := e.pathOf(b.X, in); path != "" {
				left := e.filtered(x, b.Op, y.signed)
				in = &scope{outer: in, node: b, known: map[string]*extent{path: left}}
			}
		}
	}
	return in, true
}

// only returns v if it is one number and nothing else, or nil.
func only(v *extent) *extent {
	if v.exact && v.text < 0 && v.isScalar() && v.any == nil {
		return v
	}
	return nil
}

// filtered returns v without the numbers that do not compare with n.
func (e *estimate) filtered(v *extent, op token.Token, n float64) *extent {
	if len(v.alts) == 0 {
		if x := only(v); x != nil && !compares(op, x.signed, n) {
			return nil
		}
		return v
	}
	left := nothing()
	for _, a := range v.alts {
		if a := e.filtered(a, op, n); a != nil {
			left.alts = append(left.alts, a)
		}
	}
	left.settle()
	return left
}

// compares reports whether x op y may hold.
func compares(op token.Token, x, y float64) bool {
	switch op {
	case token.LSS:
		return x < y
	case token.LEQ:
		return x <= y
	case token.GTR:
		return x > y
	case token.GEQ:
		return x >= y
	case token.EQL:
		return x == y
	case token.NEQ:
		return x != y
	}
	return true
}

// compute returns the number that an operation makes of two that are known.
func compute(op token.Token, x, y *extent) (float64, bool) {
	x, y = only(x), only(y)
	if x == nil || y == nil {
		return 0, false
	}
	switch op {
	case token.ADD:
		return x.signed + y.signed, true
	case token.SUB:
		return x.signed - y.signed, true
	case token.MUL:
		return x.signed * y.signed, true
	}
	return 0, false
}

// knownOf returns what a condition leaves of x, nil if none says anything of it.
func (e *estimate) knownOf(x ast.Expr, in *scope) *extent {
	path := ""
	for s := in; s != nil; s = s.outer {
		if s.known == nil {
			continue
		}
		if path == "" {
			path = e.pathOf(x, in)
		}
		if v := s.known[path]; v != nil {
			return v
		}
	}
	return nil
}

// pathOf writes a chain of selectors so that it can be compared with others, "" if x is
// something else.
func (e *estimate) pathOf(x ast.Expr, in *scope) string {
	switch x := x.(type) {
	case *ast.ParenExpr:
		return e.pathOf(x.X, in)
	case *ast.Ident:
		if s := in.at(x.Scope); s != nil {
			return fmt.Sprintf("%p %s", s, x.Name)
		}
	case *ast.SelectorExpr:
		name, ok := syntax.StaticLabel(x.Sel)
		if outer := e.pathOf(x.X, in); ok && outer != "" {
			return outer + "\x00" + name
		}
	}
	return ""
}

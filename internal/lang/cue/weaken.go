package cue

import (
	"strings"

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/ast/astutil"
	"cuelang.org/go/cue/format"
	"cuelang.org/go/cue/parser"
	"cuelang.org/go/cue/token"
)

// A Weaker is a program with one condition less than another one.
type Weaker struct {
	// Condition is the text of what is left out.
	Condition string
	Source    string
}

// Weaken returns the programs that come of source when one of its conditions is left out: the
// condition of an if, or an operand of && or ||. It returns none for what cannot be parsed. Tests
// of policies should notice each. Comparisons that ask whether a field exists (!= _|_) stay: they
// mostly guard what follows, and programs often say the same without them.
func Weaken(source string) []Weaker {
	var all []Weaker
	for i := 0; ; i++ {
		weaker, ok := weakened(source, i)
		if !ok {
			return all
		}
		all = append(all, weaker)
	}
}

// weakened leaves out the condition with a number.
func weakened(source string, number int) (Weaker, bool) {
	file, err := parser.ParseFile("", source, parser.ParseComments)
	if err != nil {
		return Weaker{}, false
	}
	var left ast.Expr
	leave := func(e ast.Expr, neutral bool) ast.Expr {
		if isGuard(e) {
			return e
		}
		number--
		if number != -1 {
			return e
		}
		left = e
		return ast.NewBool(neutral)
	}
	astutil.Apply(file, func(c astutil.Cursor) bool {
		switch n := c.Node().(type) {
		case *ast.IfClause:
			n.Condition = leave(n.Condition, true)
		case *ast.BinaryExpr:
			if n.Op == token.LAND || n.Op == token.LOR {
				n.X, n.Y = leave(n.X, n.Op == token.LAND), leave(n.Y, n.Op == token.LAND)
			}
		}
		return left == nil
	}, nil)
	if left == nil {
		return Weaker{}, false
	}
	condition, err := format.Node(left)
	if err != nil {
		return Weaker{}, false
	}
	text, err := format.Node(file)
	return Weaker{Condition: strings.Join(strings.Fields(string(condition)), " "), Source: string(text)}, err == nil
}

// isGuard reports whether e asks whether a field exists.
func isGuard(e ast.Expr) bool {
	comparison, ok := e.(*ast.BinaryExpr)
	if !ok || comparison.Op != token.NEQ {
		return false
	}
	_, bottom := comparison.Y.(*ast.BottomLit)
	return bottom
}

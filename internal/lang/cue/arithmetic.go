package cue

import (
	"slices"

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/ast/astutil"
	"cuelang.org/go/cue/token"

	"github.com/usher-dev/usher/internal/lang/cue/internal/syntax"
)

// keepListArithmetic gives + and * of lists, which the evaluator no longer has, to the
// builtins that replaced them. Where a sum may or may not be one of lists, it becomes a
// disjunction of both ways; a product that turns out to be one fails when it is computed.
// It reports whether the source has not become too large by it.
func (c *compilation) keepListArithmetic(file *ast.File) bool {
	s, changed := syntax.Shapes{}, false
	inner := map[ast.Node]bool{}
	astutil.Apply(file, func(cursor astutil.Cursor) bool {
		// The left operand of a sum is part of the sum.
		if b, ok := cursor.Node().(*ast.BinaryExpr); ok && b.Op == token.ADD {
			inner[b.X] = true
		}
		return true
	}, func(cursor astutil.Cursor) bool {
		b, ok := cursor.Node().(*ast.BinaryExpr)
		if !ok {
			return true
		}
		var replacement ast.Expr
		switch {
		case b.Op == token.ADD && !inner[b]:
			replacement = listSum(s, b)
		case b.Op == token.MUL:
			replacement = listProduct(s, b)
		}
		if replacement != nil {
			cursor.Replace(replacement)
			changed = true
		}
		return true
	})
	if !changed {
		return true
	}
	if size(file) > largestSource {
		c.fail("it adds too many values that may be lists", "add lists with list.Concat")
		return false
	}
	resolve(file)
	return true
}

// largestSource bounds, in nodes, what listSum may make of nested sums.
const largestSource = 500_000

func size(file *ast.File) int {
	n := 0
	ast.Walk(file, func(ast.Node) bool { n++; return n <= largestSource }, nil)
	return n
}

// listSum returns the replacement of a sum that is or may be one of lists, nil if it is not.
func listSum(s syntax.Shapes, b *ast.BinaryExpr) ast.Expr {
	operands := sumOf(b)
	sum := syntax.Anything
	for _, operand := range operands {
		switch s.Of(operand) {
		case syntax.NoList:
			return nil
		case syntax.AList:
			sum = syntax.AList
		case syntax.Anything:
		}
	}
	concat := call("Concat", &ast.ListLit{Elts: operands})
	if sum == syntax.AList {
		return concat
	}
	// Exactly one of the two is not an error.
	return &ast.ParenExpr{X: &ast.BinaryExpr{X: concat, OpPos: b.OpPos, Op: token.OR, Y: b}}
}

// sumOf returns the operands of a + b + c.
func sumOf(b *ast.BinaryExpr) []ast.Expr {
	var operands []ast.Expr
	for {
		operands = append(operands, b.Y)
		left, ok := b.X.(*ast.BinaryExpr)
		if !ok || left.Op != token.ADD {
			operands = append(operands, b.X)
			slices.Reverse(operands)
			return operands
		}
		b = left
	}
}

// listProduct returns the replacement of a product that is certainly one of a list, nil otherwise.
func listProduct(s syntax.Shapes, b *ast.BinaryExpr) ast.Expr {
	switch {
	case s.Of(b.X) == syntax.AList:
		return call("Repeat", b.X, b.Y)
	case s.Of(b.Y) == syntax.AList:
		return call("Repeat", b.Y, b.X)
	}
	return nil
}

// call returns a call of a function of package list, even if the name list is shadowed.
func call(fun string, args ...ast.Expr) ast.Expr {
	pkg := &ast.Ident{Name: "list", Node: ast.NewImport(nil, "list")}
	return &ast.CallExpr{Fun: &ast.SelectorExpr{X: pkg, Sel: ast.NewIdent(fun)}, Args: args}
}

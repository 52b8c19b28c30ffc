package cue

import (
	"slices"

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/ast/astutil"
	"cuelang.org/go/cue/token"
)

// A shape is what is known of a value from how it is written.
type shape int

const (
	anything shape = iota
	noList
	aList
)

// keepListArithmetic gives + and * of lists, which the evaluator no longer has, to the
// builtins that replaced them. Where a sum may or may not be one of lists, it becomes a
// disjunction of both ways; a product that turns out to be one fails when it is computed.
// It reports whether the source has not become too large by it.
func (c *compilation) keepListArithmetic(file *ast.File) bool {
	s, changed := shapes{}, false
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
			replacement = s.listSum(b)
		case b.Op == token.MUL:
			replacement = s.listProduct(b)
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

// listSum returns what stands for a sum that is or may be one of lists, nil if it is
// none.
func (s shapes) listSum(b *ast.BinaryExpr) ast.Expr {
	operands := sumOf(b)
	sum := anything
	for _, operand := range operands {
		switch s.of(operand) {
		case noList:
			return nil
		case aList:
			sum = aList
		}
	}
	concat := call("Concat", &ast.ListLit{Elts: operands})
	if sum == aList {
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

// listProduct returns what stands for a product that surely is one of a list, nil
// otherwise.
func (s shapes) listProduct(b *ast.BinaryExpr) ast.Expr {
	switch {
	case s.of(b.X) == aList:
		return call("Repeat", b.X, b.Y)
	case s.of(b.Y) == aList:
		return call("Repeat", b.Y, b.X)
	}
	return nil
}

// call returns a call of a function of package list, whatever the name list means where
// it is put.
func call(fun string, args ...ast.Expr) ast.Expr {
	pkg := &ast.Ident{Name: "list", Node: ast.NewImport(nil, "list")}
	return &ast.CallExpr{Fun: &ast.SelectorExpr{X: pkg, Sel: ast.NewIdent(fun)}, Args: args}
}

// Shapes remember what is known of expressions; while that is being found out, nothing is.
type shapes map[ast.Expr]shape

// of returns what is known of the value of e. What one declaration of a name says is
// enough: others can only make the value more special.
func (s shapes) of(e ast.Expr) shape {
	known, ok := s[e]
	if !ok {
		s[e] = anything
		known = s.find(e)
		s[e] = known
	}
	return known
}

func (s shapes) find(e ast.Expr) shape {
	switch x := e.(type) {
	case *ast.ParenExpr:
		return s.of(x.X)
	case *ast.BasicLit, *ast.Interpolation, *ast.StructLit:
		return noList
	case *ast.UnaryExpr:
		if x.Op == token.ADD || x.Op == token.SUB || x.Op == token.NOT {
			return noList
		}
	case *ast.ListLit:
		return aList
	case *ast.Ident:
		return s.ofName(x)
	case *ast.CallExpr:
		return shapeOfCall(x)
	case *ast.BinaryExpr:
		return s.ofOperation(x)
	}
	return anything
}

func (s shapes) ofName(id *ast.Ident) shape {
	switch scope := id.Scope.(type) {
	case *ast.ForClause:
		return anything
	case *ast.LetClause:
		return s.of(scope.Expr)
	}
	switch node := id.Node.(type) {
	case nil:
		if id.Name != "_" && slices.Contains(scalarTypes(), id.Name) {
			return noList
		}
	case *ast.LetClause:
		return s.of(node.Expr)
	case ast.Expr:
		return s.of(node)
	}
	return anything
}

func shapeOfCall(x *ast.CallExpr) shape {
	switch fun := x.Fun.(type) {
	case *ast.Ident:
		if fun.Node == nil && slices.Contains([]string{
			"len", "div", "mod", "quo", "rem", "__len", "__div", "__mod", "__quo", "__rem",
		}, fun.Name) {
			return noList
		}
	case *ast.SelectorExpr:
		pkg, ok := fun.X.(*ast.Ident)
		if !ok {
			return anything
		}
		spec, ok := pkg.Node.(*ast.ImportSpec)
		if !ok {
			return anything
		}
		name, _ := staticLabel(fun.Sel)
		return shapeOfBuiltin(spec.Path.Value, name)
	}
	return anything
}

func shapeOfBuiltin(path, name string) shape {
	switch path {
	case `"list"`:
		switch name {
		case "Concat", "Drop", "FlattenN", "Range", "Repeat", "Slice", "Sort", "SortStable", "SortStrings", "Take":
			return aList
		case "Avg", "Contains", "Max", "Min", "Sum":
			return noList
		}
	case `"strings"`:
		switch name {
		case "Fields", "Runes", "Split", "SplitAfter", "SplitAfterN", "SplitN":
			return aList
		}
		return noList
	case `"strconv"`, `"math"`:
		return noList
	}
	return anything
}

func (s shapes) ofOperation(b *ast.BinaryExpr) shape {
	switch b.Op {
	case token.ADD, token.MUL:
		x, y := s.of(b.X), s.of(b.Y)
		switch {
		case x == aList || y == aList:
			return aList
		case b.Op == token.ADD && (x == noList || y == noList), x == noList && y == noList:
			return noList
		}
	case token.AND:
		return max(s.of(b.X), s.of(b.Y))
	case token.OR:
		if x := s.of(b.X); x == s.of(b.Y) {
			return x
		}
	default:
		return noList
	}
	return anything
}

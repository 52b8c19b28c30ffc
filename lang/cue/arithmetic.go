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
	changed := false
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
			replacement = listSum(b)
		case b.Op == token.MUL:
			replacement = listProduct(b)
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
func listSum(b *ast.BinaryExpr) ast.Expr {
	operands := sumOf(b)
	sum := anything
	for _, operand := range operands {
		switch shapeOf(operand, 0) {
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
func listProduct(b *ast.BinaryExpr) ast.Expr {
	switch {
	case shapeOf(b.X, 0) == aList:
		return call("Repeat", b.X, b.Y)
	case shapeOf(b.Y, 0) == aList:
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

// shapeOf returns what is known of the value of e. What one declaration of a name says
// is enough: others can only make the value more special.
func shapeOf(e ast.Expr, depth int) shape {
	if depth > 50 {
		return anything
	}
	switch x := e.(type) {
	case *ast.ParenExpr:
		return shapeOf(x.X, depth+1)
	case *ast.BasicLit, *ast.Interpolation, *ast.StructLit:
		return noList
	case *ast.UnaryExpr:
		if x.Op == token.ADD || x.Op == token.SUB || x.Op == token.NOT {
			return noList
		}
	case *ast.ListLit:
		return aList
	case *ast.Ident:
		return shapeOfName(x, depth)
	case *ast.CallExpr:
		return shapeOfCall(x)
	case *ast.BinaryExpr:
		return shapeOfOperation(x, depth)
	}
	return anything
}

func shapeOfName(id *ast.Ident, depth int) shape {
	switch scope := id.Scope.(type) {
	case *ast.ForClause:
		return anything
	case *ast.LetClause:
		return shapeOf(scope.Expr, depth+1)
	}
	switch node := id.Node.(type) {
	case nil:
		if id.Name != "_" && slices.Contains(scalarTypes(), id.Name) {
			return noList
		}
	case *ast.LetClause:
		return shapeOf(node.Expr, depth+1)
	case ast.Expr:
		return shapeOf(node, depth+1)
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

func shapeOfOperation(b *ast.BinaryExpr, depth int) shape {
	switch b.Op {
	case token.ADD, token.MUL:
		x, y := shapeOf(b.X, depth+1), shapeOf(b.Y, depth+1)
		switch {
		case x == aList || y == aList:
			return aList
		case b.Op == token.ADD && (x == noList || y == noList), x == noList && y == noList:
			return noList
		}
	case token.AND:
		return max(shapeOf(b.X, depth+1), shapeOf(b.Y, depth+1))
	case token.OR:
		if x := shapeOf(b.X, depth+1); x == shapeOf(b.Y, depth+1) {
			return x
		}
	default:
		return noList
	}
	return anything
}

package syntax

import (
	"slices"

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/token"
)

// A Shape is what is known of a value from its expression.
type Shape int

const (
	// Anything is not known to be either.
	Anything Shape = iota
	// NoList is surely no list, AList surely one.
	NoList
	AList
)

// Shapes cache the shapes of expressions; during the computation of a shape it is unknown.
type Shapes map[ast.Expr]Shape

// Of returns what is known of the value of e. One declaration of a name is enough: others can only
// make the value more specific.
func (s Shapes) Of(e ast.Expr) Shape {
	known, ok := s[e]
	if !ok {
		s[e] = Anything
		known = s.find(e)
		s[e] = known
	}
	return known
}

func (s Shapes) find(e ast.Expr) Shape {
	switch x := e.(type) {
	case *ast.ParenExpr:
		return s.Of(x.X)
	case *ast.BasicLit, *ast.Interpolation, *ast.StructLit:
		return NoList
	case *ast.UnaryExpr:
		if x.Op == token.ADD || x.Op == token.SUB || x.Op == token.NOT {
			return NoList
		}
	case *ast.ListLit:
		return AList
	case *ast.Ident:
		return s.ofName(x)
	case *ast.CallExpr:
		return ShapeOfCall(x)
	case *ast.BinaryExpr:
		return s.ofOperation(x)
	}
	return Anything
}

func (s Shapes) ofName(id *ast.Ident) Shape {
	switch scope := id.Scope.(type) {
	case *ast.ForClause:
		return Anything
	case *ast.LetClause:
		return s.Of(scope.Expr)
	}
	switch node := id.Node.(type) {
	case nil:
		if id.Name != "_" && slices.Contains(ScalarTypes(), id.Name) {
			return NoList
		}
	case *ast.LetClause:
		return s.Of(node.Expr)
	case ast.Expr:
		return s.Of(node)
	}
	return Anything
}

// ShapeOfCall returns what is known of the result of a call.
func ShapeOfCall(x *ast.CallExpr) Shape {
	switch fun := x.Fun.(type) {
	case *ast.Ident:
		if fun.Node == nil && slices.Contains([]string{
			"len", "div", "mod", "quo", "rem", "__len", "__div", "__mod", "__quo", "__rem",
		}, fun.Name) {
			return NoList
		}
	case *ast.SelectorExpr:
		pkg, ok := fun.X.(*ast.Ident)
		if !ok {
			return Anything
		}
		spec, ok := pkg.Node.(*ast.ImportSpec)
		if !ok {
			return Anything
		}
		name, _ := StaticLabel(fun.Sel)
		return shapeOfBuiltin(spec.Path.Value, name)
	}
	return Anything
}

func shapeOfBuiltin(path, name string) Shape {
	switch path {
	case `"list"`:
		switch name {
		case "Concat", "Drop", "FlattenN", "Range", "Repeat", "Slice", "Sort", "SortStable", "SortStrings", "Take":
			return AList
		case "Avg", "Contains", "Max", "Min", "Sum":
			return NoList
		}
	case `"strings"`:
		switch name {
		case "Fields", "Runes", "Split", "SplitAfter", "SplitAfterN", "SplitN":
			return AList
		}
		return NoList
	case `"strconv"`, `"math"`:
		return NoList
	}
	return Anything
}

func (s Shapes) ofOperation(b *ast.BinaryExpr) Shape {
	switch b.Op {
	case token.ADD, token.MUL:
		x, y := s.Of(b.X), s.Of(b.Y)
		switch {
		case x == AList || y == AList:
			return AList
		case b.Op == token.ADD && (x == NoList || y == NoList), x == NoList && y == NoList:
			return NoList
		}
	case token.AND:
		return max(s.Of(b.X), s.Of(b.Y))
	case token.OR:
		if x := s.Of(b.X); x == s.Of(b.Y) {
			return x
		}
	default:
		return NoList
	}
	return Anything
}

// Package syntax is what the parts of lang/cue that look at CUE's syntax have in common. It
// evaluates nothing.
package syntax

import (
	"strings"

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/literal"
	"cuelang.org/go/cue/token"
)

// StaticLabel returns the name in a label or selector, if it is written out.
func StaticLabel(label ast.Node) (string, bool) {
	switch l := label.(type) {
	case *ast.Ident:
		return l.Name, true
	case *ast.BasicLit:
		name, err := literal.Unquote(l.Value)
		return name, err == nil && l.Kind == token.STRING
	}
	return "", false
}

// Decls returns the declarations of a file or struct literal.
func Decls(node ast.Node) []ast.Decl {
	switch x := node.(type) {
	case *ast.File:
		return x.Decls
	case *ast.StructLit:
		return x.Elts
	}
	return nil
}

// Operands returns the operands of a chain of one operator, parentheses removed.
func Operands(e ast.Expr, op token.Token) []ast.Expr {
	switch x := e.(type) {
	case *ast.ParenExpr:
		return Operands(x.X, op)
	case *ast.BinaryExpr:
		if x.Op == op {
			return append(Operands(x.X, op), Operands(x.Y, op)...)
		}
	}
	return []ast.Expr{e}
}

// ComparesWithBottom reports whether an expression tests for presence.
func ComparesWithBottom(b *ast.BinaryExpr) bool {
	return (b.Op == token.EQL || b.Op == token.NEQ) && (IsBottom(b.X) || IsBottom(b.Y))
}

// IsBottom reports whether an expression is _|_.
func IsBottom(e ast.Expr) bool {
	for {
		switch x := e.(type) {
		case *ast.BottomLit:
			return true
		case *ast.ParenExpr:
			e = x.X
			continue
		}
		return false
	}
}

// ScalarTypes returns the names of the predeclared types of scalars, and _.
func ScalarTypes() []string {
	return []string{
		"_", "bool", "string", "bytes", "number", "int", "float", "null",
		"uint", "uint8", "int8", "uint16", "int16", "rune", "uint32", "int32", "uint64", "int64",
		"uint128", "int128", "float32", "float64",
	}
}

// Texts returns the texts around the values of an interpolation of a string; it is not ok for
// one of bytes.
func Texts(x *ast.Interpolation) ([]string, bool) {
	if len(x.Elts)%2 == 0 {
		return nil, false
	}
	first, last := x.Quotes()
	if first == nil || last == nil {
		return nil, false
	}
	info, prefixLen, _, err := literal.ParseQuotes(first.Value, last.Value)
	if err != nil || !info.IsDouble() {
		return nil, false
	}
	var texts []string
	prefix := ""
	for i := 0; i < len(x.Elts); i += 2 {
		lit, ok := x.Elts[i].(*ast.BasicLit)
		if !ok || !strings.HasPrefix(lit.Value, prefix) {
			return nil, false
		}
		text, err := info.Unquote(lit.Value[prefixLen:])
		if err != nil {
			return nil, false
		}
		texts = append(texts, text)
		prefix, prefixLen = ")", 1
	}
	return texts, true
}

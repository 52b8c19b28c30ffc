package cue

import (
	"fmt"
	"math/bits"
	"strings"

	"github.com/usher-dev/usher/internal/lang/cue/internal/syntax"
	"github.com/usher-dev/usher/internal/rule"

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/token"
)

// kinds is a set of kinds of values: those that an expression may have.
type kinds uint8

const (
	kindNull kinds = 1 << iota
	kindBool
	kindString
	kindNumber
	kindList
	kindStruct
	kindOther

	anyKind kinds = 1<<iota - 1
)

// String names the kinds: "a text or a number".
func (k kinds) String() string {
	names := []string{"null", "true or false", "text", "a number", "a list", "a struct", "something else"}
	var in []string
	for i, name := range names {
		if k&(1<<i) != 0 {
			in = append(in, name)
		}
	}
	return strings.Join(in, " or ")
}

// kindsOf returns the kinds that e may have; all of them where that is not known.
func (i *inspector) kindsOf(e ast.Expr) kinds { return i.kindsAt(e, 0) }

func (i *inspector) kindsAt(e ast.Expr, depth int) kinds {
	if i.looks--; depth > mostLiterals || i.looks < 0 {
		return anyKind
	}
	switch x := e.(type) {
	case *ast.ParenExpr:
		return i.kindsAt(x.X, depth+1)
	case *ast.BasicLit:
		return kindOfLiteral(x)
	case *ast.Interpolation:
		if _, ok := syntax.Texts(x); ok {
			return kindString
		}
	case *ast.ListLit:
		return kindList
	case *ast.StructLit:
		if onlyFields(x) {
			return kindStruct
		}
	case *ast.UnaryExpr:
		return i.kindsOfUnary(x, depth)
	case *ast.BinaryExpr:
		return i.kindsOfBinary(x, depth)
	case *ast.CallExpr:
		return kindsOfCall(x)
	case *ast.Ident:
		return i.kindsOfName(x, depth)
	}
	return anyKind
}

func kindOfLiteral(x *ast.BasicLit) kinds {
	switch x.Kind {
	case token.NULL:
		return kindNull
	case token.TRUE, token.FALSE:
		return kindBool
	case token.INT, token.FLOAT:
		return kindNumber
	case token.STRING:
		if strings.HasPrefix(strings.TrimLeft(x.Value, "#"), "'") {
			return kindOther
		}
		return kindString
	}
	return anyKind
}

// onlyFields reports whether a literal in braces is a struct: it may be the value that it embeds.
func onlyFields(s *ast.StructLit) bool {
	for _, decl := range s.Elts {
		if _, ok := decl.(*ast.Field); !ok {
			return false
		}
	}
	return true
}

func (i *inspector) kindsOfUnary(x *ast.UnaryExpr, depth int) kinds {
	switch x.Op {
	case token.NOT:
		return kindBool
	case token.ADD, token.SUB:
		return kindNumber
	case token.MUL:
		return i.kindsAt(x.X, depth+1)
	}
	return anyKind
}

func (i *inspector) kindsOfBinary(x *ast.BinaryExpr, depth int) kinds {
	switch x.Op {
	case token.LAND, token.LOR, token.EQL, token.NEQ, token.LSS, token.LEQ, token.GTR, token.GEQ, token.MAT, token.NMAT:
		return kindBool
	case token.SUB, token.QUO:
		return kindNumber
	case token.OR:
		return i.kindsAt(x.X, depth+1) | i.kindsAt(x.Y, depth+1)
	case token.ADD:
		// Both sides have the same kind.
		return i.kindsAt(x.X, depth+1) & i.kindsAt(x.Y, depth+1)
	}
	return anyKind
}

func kindsOfCall(x *ast.CallExpr) kinds {
	switch fun := x.Fun.(type) {
	case *ast.Ident:
		if fun.Node != nil {
			return anyKind
		}
		switch strings.TrimPrefix(fun.Name, "__") {
		case "len", "div", "mod", "quo", "rem":
			return kindNumber
		}
	case *ast.SelectorExpr:
		pkg, ok := fun.X.(*ast.Ident)
		if !ok {
			return anyKind
		}
		spec, ok := pkg.Node.(*ast.ImportSpec)
		if !ok {
			return anyKind
		}
		name, _ := syntax.StaticLabel(fun.Sel)
		return kindsOfFunction(strings.Trim(spec.Path.Value, `"`) + "." + name)
	}
	return anyKind
}

// kindsOfFunction returns what functions return that are called with all their arguments. Those
// that may be written without the last one, as constraints, are not known.
func kindsOfFunction(name string) kinds {
	switch name {
	case "strings.ToLower", "strings.ToUpper", "strings.ToTitle", "strings.TrimSpace", "strings.Join", "strings.Replace", "strings.Repeat",
		"strings.TrimPrefix", "strings.TrimSuffix", "strings.Trim", "strconv.Itoa", "strconv.FormatInt", "strconv.FormatFloat", "strconv.Quote":
		return kindString
	case "strings.Split", "strings.SplitN", "strings.Fields", "list.Concat", "list.FlattenN", "list.Sort", "list.Range":
		return kindList
	case "strings.Count", "strings.Index", "strings.LastIndex", "strconv.Atoi", "strconv.ParseInt", "list.Sum", "list.Max", "list.Min", "list.Avg", "math.Floor", "math.Round":
		return kindNumber
	}
	return anyKind
}

func (i *inspector) kindsOfName(id *ast.Ident, depth int) kinds {
	if id.Node == nil {
		switch id.Name {
		case "string":
			return kindString
		case "bool":
			return kindBool
		case "int", "number", "float":
			return kindNumber
		}
		return anyKind
	}
	if _, inFile := id.Scope.(*ast.File); !inFile || len(i.fields[id.Name]) > 1 {
		return anyKind
	}
	if target, ok := valueOf(id); ok {
		return i.kindsAt(target, depth+1)
	}
	return anyKind
}

// compares reports two values that never have the same kind.
func (a *advisor) compares(b *ast.BinaryExpr) {
	x, y := a.kindsOf(b.X), a.kindsOf(b.Y)
	if x == 0 || y == 0 || x&y != 0 || (x|y)&(kindNull|kindOther) != 0 || bits.OnesCount8(uint8(x)) > 2 || bits.OnesCount8(uint8(y)) > 2 {
		return
	}
	a.problem(rule.Mistake, b.Pos(), fmt.Sprintf("%s is %s and %s is %s: they cannot be compared, so the rule fails", a.text(b.X), x, a.text(b.Y), y),
		"compare values of one kind: numbers are written without quotes")
}

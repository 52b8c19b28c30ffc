package cue

import (
	"maps"
	"slices"
	"strconv"

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/literal"
	"cuelang.org/go/cue/token"

	"github.com/usher-dev/usher/internal/rule"
)

// Uses implements [rule.Traced].
func (p *Program) Uses() []rule.Use {
	var all []rule.Use
	holders := map[string]rule.Holder{"object": rule.CurrentObject, "oldObject": rule.OldObject}
	reads := p.reads
	if data := reads["data"]; data != nil {
		reads = data.fields
	}
	for _, name := range slices.Sorted(maps.Keys(reads)) {
		if holder, ok := holders[name]; ok {
			all = reads[name].appendUses(all, rule.Use{Of: holder, Paths: [][]string{nil}})
		}
	}
	return all
}

// mostUses bounds what is told of one program.
const mostUses = 1000

// appendUses appends what is read below at, which leads to what the need is of.
func (n *need) appendUses(all []rule.Use, at rule.Use) []rule.Use {
	if len(all) >= mostUses {
		return all
	}
	if n.whole || n.each == nil && len(n.fields) == 0 && len(n.elements) == 0 {
		at.Compared, at.Only, at.Told = n.compared, n.compares(), n.told
		return append(all, at)
	}
	next := func(step string, indexed bool) rule.Use {
		below := at
		below.Paths = [][]string{append(slices.Clone(at.Paths[0]), step)}
		below.Indexed = at.Indexed || indexed
		return below
	}
	if n.each != nil {
		all = n.each.appendUses(all, next(rule.Element, false))
	}
	for _, i := range slices.Sorted(maps.Keys(n.elements)) {
		all = n.elements[i].appendUses(all, next(rule.Element, true))
	}
	for _, name := range slices.Sorted(maps.Keys(n.fields)) {
		all = n.fields[name].appendUses(all, next(name, false))
	}
	return all
}

// comparisons returns the constants that a chain is compared with, nil if that is not what is done.
func (t *tracer) comparisons(c chain) []rule.Comparison {
	if len(c.parents) == 0 {
		return nil
	}
	switch p := c.parents[len(c.parents)-1].(type) {
	case *ast.BinaryExpr:
		other, op := p.Y, p.Op
		if p.Y == c.node {
			other, op = p.X, swapped(p.Op)
		}
		switch op {
		case token.EQL, token.NEQ, token.LSS, token.LEQ, token.GTR, token.GEQ, token.MAT, token.NMAT:
			if value, ok := t.constant(other); ok {
				return []rule.Comparison{{Op: op.String(), With: value}}
			}
		}
	case *ast.CallExpr:
		return t.calls(p, c.node)
	}
	return nil
}

// calls returns what a call of list.Contains or one of package strings compares with.
func (t *tracer) calls(call *ast.CallExpr, value ast.Node) []rule.Comparison {
	fun, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || len(call.Args) != 2 {
		return nil
	}
	pkg, inPackage := fun.X.(*ast.Ident)
	name, named := fun.Sel.(*ast.Ident)
	if !inPackage || !named {
		return nil
	}
	switch pkg.Name + "." + name.Name {
	case "list.Contains":
		list, ok := t.value(call.Args[0]).(*ast.ListLit)
		if !ok || call.Args[1] != value || len(list.Elts) > mostCompared {
			return nil
		}
		var all []rule.Comparison
		for _, element := range list.Elts {
			with, ok := t.constant(element)
			if !ok {
				return nil
			}
			all = append(all, rule.Comparison{Op: "==", With: with})
		}
		return all
	case "strings.HasPrefix", "strings.HasSuffix", "strings.Contains":
		if with, ok := t.constant(call.Args[1]); ok && call.Args[0] == value {
			return []rule.Comparison{{Op: name.Name, With: with}}
		}
	}
	return nil
}

// value returns the value of a name that is a top-level field with one, and other expressions as they are.
func (t *tracer) value(e ast.Expr) ast.Expr {
	id, ok := e.(*ast.Ident)
	if !ok || len(t.fields[id.Name]) != 1 {
		return e
	}
	if _, inFile := id.Scope.(*ast.File); !inFile {
		return e
	}
	return t.fields[id.Name][0].Value
}

func (t *tracer) constant(e ast.Expr) (any, bool) {
	lit, ok := t.value(e).(*ast.BasicLit)
	if !ok {
		return nil, false
	}
	switch lit.Kind {
	case token.STRING:
		if text, err := literal.Unquote(lit.Value); err == nil {
			return text, true
		}
	case token.TRUE, token.FALSE:
		return lit.Kind == token.TRUE, true
	case token.INT:
		if n, err := strconv.ParseInt(lit.Value, 10, 64); err == nil {
			return n, true
		}
	case token.FLOAT:
		if f, err := strconv.ParseFloat(lit.Value, 64); err == nil {
			return f, true
		}
	}
	return nil, false
}

// swapped returns the operator with which the sides are exchanged; there is none for patterns.
func swapped(op token.Token) token.Token {
	switch op {
	case token.LSS:
		return token.GTR
	case token.LEQ:
		return token.GEQ
	case token.GTR:
		return token.LSS
	case token.GEQ:
		return token.LEQ
	case token.MAT, token.NMAT:
		return token.ILLEGAL
	}
	return op
}

package cue

import (
	"slices"
	"strconv"
	"strings"

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/literal"
	"cuelang.org/go/cue/token"

	"github.com/usher-dev/usher/internal/lang/cue/internal/syntax"
)

// A step is one selector or index; neither name nor index is any of them.
type step struct {
	name    string
	isName  bool
	index   int
	isIndex bool
}

// An action is the use of a value.
type action int

const (
	// readAll needs the value whole.
	readAll action = iota
	// testPresence compares it with _|_.
	testPresence
	// measure is its length.
	measure
	// nameIt gives it another name, loopOver each of its members.
	nameIt
	loopOver
)

// A chain is a mention with the selectors and indices behind it.
type chain struct {
	path []step
	// node is the whole chain, parents are the nodes around it, outermost first.
	node    ast.Node
	parents []ast.Node
}

// climb returns the chain that begins with id.
func (t *tracer) climb(id *ast.Ident) (c chain) {
	c.node = id
	at := len(t.stack) - 1
	for ; at >= 0; at-- {
		s, more := stepOf(t.stack[at], c.node)
		if !more {
			break
		}
		if s != nil {
			c.path = append(c.path, *s)
		}
		c.node = t.stack[at]
	}
	c.parents = t.stack[:at+1]
	return c
}

// stepOf returns the step from child to parent, and whether the chain continues there; parentheses
// are not a step.
func stepOf(parent, child ast.Node) (*step, bool) {
	switch p := parent.(type) {
	case *ast.ParenExpr:
		return nil, true
	case *ast.SelectorExpr:
		if name, ok := syntax.StaticLabel(p.Sel); ok && p.X == child {
			return &step{name: name, isName: true}, true
		}
	case *ast.IndexExpr:
		if p.X == child {
			return indexStep(p.Index), true
		}
	}
	return nil, false
}

func indexStep(index ast.Expr) *step {
	lit, ok := index.(*ast.BasicLit)
	if !ok {
		return &step{}
	}
	switch lit.Kind {
	case token.STRING:
		if name, err := literal.Unquote(lit.Value); err == nil {
			return &step{name: name, isName: true}
		}
	case token.INT:
		if i, err := strconv.Atoi(lit.Value); err == nil && i < deepest {
			return &step{index: i, isIndex: true}
		}
	}
	return &step{}
}

// does returns the use of a chain, and the keys by which its value is known.
func (t *tracer) does(c chain) (action, []any) {
	if len(c.parents) == 0 {
		return readAll, nil
	}
	switch p := c.parents[len(c.parents)-1].(type) {
	case *ast.BinaryExpr:
		if syntax.ComparesWithBottom(p) {
			return testPresence, nil
		}
	case *ast.CallExpr:
		fun, ok := p.Fun.(*ast.Ident)
		if ok && fun.Name == "len" && fun.Node == nil && p.Fun != c.node {
			return measure, nil
		}
	case *ast.ForClause:
		if p.Source == c.node {
			return loopOver, []any{p.Value}
		}
	case *ast.LetClause:
		// A let clause of a struct resolves to the clause, one of a comprehension to its
		// identifier.
		return nameIt, []any{p, p.Ident}
	case *ast.Field:
		if name, ok := t.isName(p, c); ok {
			return nameIt, []any{name}
		}
	}
	return readAll, nil
}

// isName reports whether a field does nothing but give the chain that is its value a
// name, which only the source itself can use.
func (t *tracer) isName(field *ast.Field, c chain) (string, bool) {
	name, ok := syntax.StaticLabel(field.Label)
	if !ok || len(c.parents) != 2 || field.Value != c.node || field.Constraint != token.ILLEGAL ||
		strings.HasPrefix(name, "#") || strings.HasPrefix(name, "_#") ||
		len(t.fields[name]) != 1 || slices.Contains(t.params, name) || slices.Contains(t.fixed, name) {
		return "", false
	}
	_, ok = field.Label.(*ast.Ident)
	return name, ok
}

package typecheck

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"

	"github.com/usher-dev/usher/internal/lang/cel"
	"github.com/usher-dev/usher/internal/rule"
)

// A path leads from a variable to a field. Its steps are those of [rule.Use].
type path struct {
	// holder is object, oldObject, params or a source of data; empty if it is not known where a value comes from.
	holder string
	steps  []string
}

func (p path) then(step string) path {
	if p.holder == "" {
		return path{}
	}
	return path{p.holder, append(slices.Clip(p.steps), step)}
}

func (p path) equal(other path) bool {
	return p.holder == other.holder && slices.Equal(p.steps, other.steps)
}

var identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// String is the path without its holder.
func (p path) String() string {
	var text strings.Builder
	for i, step := range p.steps {
		switch {
		case step == rule.Element:
			text.WriteString(step)
		case !identifier.MatchString(step):
			text.WriteString(`["` + step + `"]`)
		case i > 0:
			text.WriteString("." + step)
		default:
			text.WriteString(step)
		}
	}
	return text.String()
}

// A tracer finds out where values come from.
type tracer struct {
	// names are the paths of variables in scope; those of the policy begin with "variables.".
	names map[string]path
	// of has the paths of nodes.
	of map[int64]path
}

// trace returns the paths of all nodes that have one.
func trace(e ast.Expr, variables map[string]path) map[int64]path {
	t := tracer{names: map[string]path{}, of: map[int64]path{}}
	for _, holder := range []string{objectName, "oldObject", paramsName} {
		t.names[holder] = path{holder: holder}
	}
	maps.Copy(t.names, variables)
	t.walk(e)
	return t.of
}

func (t *tracer) walk(e ast.Expr) path {
	var at path
	switch e.Kind() {
	case ast.IdentKind:
		at = t.names[e.AsIdent()]
	case ast.SelectKind:
		at = t.walk(e.AsSelect().Operand()).then(e.AsSelect().FieldName())
		if name, ok := qualified(e); ok && at.holder == "" && (strings.HasPrefix(name, "variables.") || strings.HasPrefix(name, dataPrefix)) {
			at = t.names[name]
		}
	case ast.ComprehensionKind:
		t.comprehension(e.AsComprehension())
	case ast.CallKind, ast.ListKind, ast.MapKind, ast.StructKind, ast.LiteralKind, ast.UnspecifiedExprKind:
		var parts []path
		for _, part := range cel.Parts(e) {
			parts = append(parts, t.walk(part))
		}
		at = called(e.AsCall(), parts)
	}
	if at.holder != "" {
		t.of[e.ID()] = at
	}
	return at
}

// called returns where the value of a call comes from, of which parts are the paths of the operands.
func called(call ast.CallExpr, parts []path) path {
	switch function := call.FunctionName(); function {
	case operators.Index, operators.OptIndex, operators.OptSelect:
		switch step := call.Args()[1].AsLiteral().(type) {
		case types.String:
			return parts[0].then(string(step))
		case types.Int:
			return parts[0].then(rule.Element)
		}
	case "orValue", "value", "dyn":
		if call.IsMemberFunction() == (function != "dyn") {
			return parts[0]
		}
	}
	return path{}
}

func (t *tracer) comprehension(c ast.ComprehensionExpr) {
	element := t.walk(c.IterRange()).then(rule.Element)
	t.walk(c.AccuInit())
	before := maps.Clone(t.names)
	t.names[c.IterVar()] = element
	if c.HasIterVar2() {
		t.names[c.IterVar()], t.names[c.IterVar2()] = path{}, element
	}
	t.walk(c.LoopCondition())
	t.walk(c.LoopStep())
	t.walk(c.Result())
	t.names = before
}

// nodesOf returns the nodes of an expression by their numbers.
func nodesOf(e ast.Expr) map[int64]ast.Expr {
	nodes := map[int64]ast.Expr{}
	ast.PreOrderVisit(e, ast.NewExprVisitor(func(node ast.Expr) { nodes[node.ID()] = node }))
	return nodes
}

// variablesIn returns the variables of the policy that an expression reads.
func variablesIn(e ast.Expr) []string {
	var names []string
	ast.PreOrderVisit(e, ast.NewExprVisitor(func(node ast.Expr) {
		if node.Kind() == ast.SelectKind && node.AsSelect().Operand().Kind() == ast.IdentKind && node.AsSelect().Operand().AsIdent() == "variables" {
			names = append(names, node.AsSelect().FieldName())
		}
	}))
	return names
}

// visit calls f with the nodes that are not above a wrong one, and reports whether e is or is above
// one.
func visit(e ast.Expr, wrong map[int64]bool, f func(int64)) bool {
	above := false
	for _, below := range cel.Parts(e) {
		above = visit(below, wrong, f) || above
	}
	if !above {
		f(e.ID())
	}
	return above || wrong[e.ID()]
}

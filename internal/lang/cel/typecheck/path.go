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
	// part says that the value is a list of which only elements come from the path.
	part bool
}

func (p path) then(step string) path {
	if p.holder == "" || p.part && step != rule.Element {
		return path{}
	}
	return path{holder: p.holder, steps: append(slices.Clip(p.steps), step)}
}

// paths are where a value may come from, the likeliest first.
type paths []path

// mostPaths is how many paths of one value are known.
const mostPaths = 8

// then returns the paths of a field, or of an element.
func (p paths) then(step string) paths {
	var all paths
	for _, one := range p {
		all = all.and(one.then(step))
	}
	return all
}

// and returns paths with others, each once.
func (p paths) and(others ...path) paths {
	for _, one := range others {
		if one.holder != "" && len(p) < mostPaths && !slices.ContainsFunc(p, one.equal) {
			p = append(slices.Clip(p), one)
		}
	}
	return p
}

// parts returns the paths of a list that has elements of the lists at paths.
func (p paths) parts() paths {
	all := slices.Clone(p)
	for i := range all {
		all[i].part = true
	}
	return all
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
	names map[string]paths
	// of has the paths of nodes.
	of map[int64]paths
}

// trace returns the paths of all nodes whose value can come from one alone.
func trace(e ast.Expr, variables map[string]path) map[int64]path {
	names := map[string]paths{}
	for name, at := range variables {
		names[name] = paths{}.and(at)
	}
	only := map[int64]path{}
	for id, all := range traceAll(e, names) {
		if len(all) == 1 && !all[0].part {
			only[id] = all[0]
		}
	}
	return only
}

// traceAll returns the paths of all nodes that have some.
func traceAll(e ast.Expr, variables map[string]paths) map[int64]paths {
	t := tracer{names: map[string]paths{}, of: map[int64]paths{}}
	for _, holder := range []string{objectName, "oldObject", paramsName} {
		t.names[holder] = paths{{holder: holder}}
	}
	maps.Copy(t.names, variables)
	t.walk(e)
	return t.of
}

func (t *tracer) walk(e ast.Expr) paths {
	var at paths
	switch e.Kind() {
	case ast.IdentKind:
		at = t.names[e.AsIdent()]
	case ast.SelectKind:
		at = t.walk(e.AsSelect().Operand()).then(e.AsSelect().FieldName())
		if name, ok := qualified(e); ok && len(at) == 0 && (strings.HasPrefix(name, "variables.") || strings.HasPrefix(name, dataPrefix)) {
			at = t.names[name]
		}
	case ast.ComprehensionKind:
		at = t.comprehension(e.AsComprehension())
	case ast.CallKind, ast.ListKind, ast.MapKind, ast.StructKind, ast.LiteralKind, ast.UnspecifiedExprKind:
		var parts []paths
		for _, part := range cel.Parts(e) {
			parts = append(parts, t.walk(part))
		}
		at = called(e.AsCall(), parts)
	}
	if len(at) > 0 {
		t.of[e.ID()] = at
	}
	return at
}

// called returns where the value of a call comes from, of which parts are the paths of the operands.
func called(call ast.CallExpr, parts []paths) paths {
	switch function := call.FunctionName(); function {
	case operators.Index, operators.OptIndex, operators.OptSelect:
		switch step := call.Args()[1].AsLiteral().(type) {
		case types.String:
			return parts[0].then(string(step))
		case types.Int:
			return parts[0].then(rule.Element)
		}
	case operators.Add:
		return parts[0].and(parts[1]...).parts()
	case operators.Conditional:
		return parts[1].and(parts[2]...)
	case "orValue", "value", "dyn":
		if call.IsMemberFunction() == (function != "dyn") {
			return parts[0]
		}
	}
	return nil
}

// comprehension returns where the elements come from of a list that a loop leaves elements of.
func (t *tracer) comprehension(c ast.ComprehensionExpr) paths {
	of := t.walk(c.IterRange())
	t.walk(c.AccuInit())
	before := maps.Clone(t.names)
	t.names[c.IterVar()] = of.then(rule.Element)
	if c.HasIterVar2() {
		t.names[c.IterVar()], t.names[c.IterVar2()] = nil, of.then(rule.Element)
	}
	t.walk(c.LoopCondition())
	t.walk(c.LoopStep())
	t.walk(c.Result())
	t.names = before
	if filters(c) {
		return of.parts()
	}
	return nil
}

// filters reports whether a loop makes a list of elements of another one: it is cond ? list + [element] : list.
func filters(c ast.ComprehensionExpr) bool {
	step := c.LoopStep().AsCall()
	if c.LoopStep().Kind() != ast.CallKind || step.FunctionName() != operators.Conditional {
		return false
	}
	kept := step.Args()[1]
	if kept.Kind() != ast.CallKind || kept.AsCall().FunctionName() != operators.Add {
		return false
	}
	added := kept.AsCall().Args()[1]
	return added.Kind() == ast.ListKind && added.AsList().Size() == 1 && added.AsList().Elements()[0].AsIdent() == c.IterVar()
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

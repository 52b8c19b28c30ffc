package typecheck

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"

	"github.com/usher-dev/usher/internal/lang/cel"
	"github.com/usher-dev/usher/internal/lang/cel/admission"
	"github.com/usher-dev/usher/internal/rule"
)

// A Naming is a name in an expression.
type Naming struct {
	// Field is the path of the expression in the policy.
	Field string
	// At is where the expression reads Params.
	At rule.Place
	// Params is a field of params that the expression reads, and none of the policy asks for first.
	Params string
	// Compared has the constants that the name of the namespace of the request is compared with: the comparison
	// is true for each of them, or for all others.
	Compared []rule.Comparison
}

// mostNamings is how many names of one policy are found.
const mostNamings = 200

// Namings returns what expressions name of params and of the namespace.
func (c *Checker) Namings(expressions []admission.Expression) []Naming {
	if c.once.Do(c.prepare); c.err != nil {
		return nil
	}
	n := namer{asked: map[string]bool{}}
	variables := map[string]path{"request": {holder: "request"}, "namespaceObject": {holder: "namespaceObject"}}
	for i, parsed := range c.parse(context.Background(), expressions) {
		if parsed == nil {
			continue
		}
		root := parsed.NativeRep().Expr()
		n.paths, n.field = trace(root, variables), expressions[i].Field
		n.place = func(e ast.Expr) rule.Place {
			at := parsed.NativeRep().SourceInfo().GetStartLocation(e.ID())
			return rule.PlaceIn(expressions[i].Text, at.Line(), at.Column()+1)
		}
		if expressions[i].Use == admission.Variable {
			variables["variables."+expressions[i].Name] = n.paths[root.ID()]
		}
		ast.PreOrderVisit(root, ast.NewExprVisitor(n.visit))
	}
	return slices.DeleteFunc(n.all, func(one Naming) bool { return one.Params != "" && n.asked[one.Params] })
}

type namer struct {
	field string
	// place returns the place of an expression in the text of the field.
	place func(ast.Expr) rule.Place
	paths map[int64]path
	all   []Naming
	// asked are the params of which an expression asks whether they are there.
	asked map[string]bool
}

func (n *namer) visit(e ast.Expr) {
	parts := cel.Parts(e)
	ofParams := func(i int) bool { return i < len(parts) && n.paths[parts[i].ID()].equal(path{holder: paramsName}) }
	switch e.Kind() {
	case ast.SelectKind:
		if ofParams(0) {
			n.param(parts[0], e.AsSelect().FieldName(), e.AsSelect().IsTestOnly())
		}
	case ast.CallKind:
		n.call(e.AsCall().FunctionName(), parts, ofParams)
	case ast.IdentKind, ast.ListKind, ast.MapKind, ast.StructKind, ast.LiteralKind, ast.ComprehensionKind, ast.UnspecifiedExprKind:
	}
}

func (n *namer) call(function string, parts []ast.Expr, ofParams func(int) bool) {
	if len(parts) != 2 {
		return
	}
	first, second := n.paths[parts[0].ID()], n.paths[parts[1].ID()]
	switch function {
	case operators.Index, operators.OptSelect, operators.OptIndex:
		if key, ok := parts[1].AsLiteral().(types.String); ok && ofParams(0) {
			n.param(parts[0], string(key), function != operators.Index)
		}
	case operators.In:
		if key, ok := parts[0].AsLiteral().(types.String); ok && ofParams(1) {
			n.param(parts[1], string(key), true)
		}
		n.compare(first, "in", parts[1])
	case operators.Equals, operators.NotEquals:
		n.compare(first, operatorOf(function), parts[1])
		n.compare(second, operatorOf(function), parts[0])
	}
}

// param notes that a field of params, which is the expression of, is read, or asked for.
func (n *namer) param(of ast.Expr, name string, asks bool) {
	switch {
	case asks:
		n.asked[name] = true
	case len(n.all) < mostNamings:
		n.all = append(n.all, Naming{Field: n.field, At: n.place(of), Params: name})
	}
}

// compare notes that the name of the namespace is compared with constants.
func (n *namer) compare(at path, op string, with ast.Expr) {
	names := []path{{holder: "request", steps: []string{"namespace"}}, {holder: objectName, steps: []string{"metadata", "namespace"}}, {holder: "oldObject", steps: []string{"metadata", "namespace"}}, {holder: "namespaceObject", steps: []string{"metadata", "name"}}}
	compared := comparisonsWith(op, with)
	// Other elements of a list may be the namespace.
	if op == "in" && len(compared) < len(with.AsList().Elements()) || len(compared) == 0 || len(n.all) >= mostNamings {
		return
	}
	if slices.ContainsFunc(names, at.equal) {
		n.all = append(n.all, Naming{Field: n.field, Compared: compared})
	}
}

// Missing returns the names of params that the policy reads and that none of values has, each with the names that
// values have.
func (n *Naming) Missing(values []map[string]any) (others []string, missing bool) {
	if n.Params == "" || len(values) == 0 {
		return nil, false
	}
	names := map[string]bool{}
	for _, of := range values {
		for name := range of {
			names[name] = true
		}
	}
	return slices.Sorted(maps.Keys(names)), !names[n.Params]
}

// Never reports whether the comparison with the namespace is the same for all objects of one namespace, without
// being about it, and returns the other namespaces.
func (n *Naming) Never(namespace string) (others string, never bool) {
	var names []string
	for _, c := range n.Compared {
		name, ok := c.With.(string)
		if !ok || name == namespace {
			return "", false
		}
		names = append(names, name)
	}
	return strings.Join(names, ", "), len(names) > 0
}

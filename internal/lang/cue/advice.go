package cue

import (
	"fmt"
	"slices"
	"strings"

	"github.com/usher-dev/usher/internal/lang/cue/internal/syntax"
	"github.com/usher-dev/usher/internal/rule"

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/token"
)

// advise warns of expressions that do not do what their author probably meant.
func (c *compilation) advise(file *ast.File, source string) {
	a := &advisor{compilation: c, source: source, shapes: syntax.Shapes{}, inspector: inspector{looks: 2_000_000, tracer: tracer{
		file: file, params: c.form.params(), fields: map[string][]*ast.Field{},
	}}}
	a.declarations(file.Decls)
	a.outputs()
	ast.Walk(file, func(n ast.Node) bool {
		switch x := n.(type) {
		case *ast.BinaryExpr:
			a.operation(x)
		case *ast.Interpolation:
			a.interpolation(x)
		}
		a.stack = append(a.stack, n)
		return true
	}, func(ast.Node) { a.stack = a.stack[:len(a.stack)-1] })
}

// An advisor checks one expression after the other, and knows the expressions around them.
type advisor struct {
	*compilation
	inspector

	source string
	shapes syntax.Shapes
}

// An inspector determines what expressions may be, as far as its budget lasts.
type inspector struct {
	tracer
	// looks is the remaining budget.
	looks int
}

func (a *advisor) operation(b *ast.BinaryExpr) {
	switch b.Op {
	case token.LAND, token.LOR:
		if !a.inside(b.Op) {
			a.guards(b)
		}
	case token.EQL, token.NEQ:
		a.listComparison(b)
		a.compares(b)
	case token.LSS, token.LEQ, token.GTR, token.GEQ:
		a.compares(b)
	}
}

// inside reports whether the current expression is an operand of one with the same operator.
func (a *advisor) inside(op token.Token) bool {
	for _, v := range slices.Backward(a.stack) {
		switch p := v.(type) {
		case *ast.ParenExpr:
			continue
		case *ast.BinaryExpr:
			return p.Op == op
		}
		return false
	}
	return false
}

// A guard is a test that is useful only if the other operands of && or || depend on it, which they
// do not: both sides are always evaluated.
type guard struct {
	at   *ast.BinaryExpr
	text string
	path string
	// null means a comparison with null, which fails for a missing field, too.
	null bool
}

// guards warns where one operand of && or || is to protect another one.
func (a *advisor) guards(b *ast.BinaryExpr) {
	operands := syntax.Operands(b, b.Op)
	for i, operand := range operands {
		g, ok := a.guardIn(operand, b.Op)
		if !ok || a.guardedOutside(g.path) {
			continue
		}
		for j, other := range operands {
			if i == j || !a.relies(other, g) {
				continue
			}
			a.problem(rule.Warning, g.at.Pos(), fmt.Sprintf(
				"%s evaluates both sides, so %s does not keep the other from failing where the field is missing",
				b.Op, g.text), "test the presence in an if clause of its own, around the rest")
			break
		}
	}
}

// guardIn returns the guard that an operand is: a != _|_ for &&, a == _|_ for ||, or
// the same with null.
func (a *advisor) guardIn(e ast.Expr, op token.Token) (guard, bool) {
	for {
		p, ok := e.(*ast.ParenExpr)
		if !ok {
			break
		}
		e = p.X
	}
	test, ok := e.(*ast.BinaryExpr)
	if !ok || (op == token.LAND) != (test.Op == token.NEQ) || (op == token.LOR) != (test.Op == token.EQL) {
		return guard{}, false
	}
	tested, against := test.X, test.Y
	if syntax.IsBottom(tested) || isNull(tested) {
		tested, against = against, tested
	}
	if !syntax.IsBottom(against) && !isNull(against) {
		return guard{}, false
	}
	path, ok := a.pathOf(tested, 0)
	g := guard{at: test, path: path, null: isNull(against)}
	if g.text = fmt.Sprintf("%s %s _|_", a.text(tested), test.Op); g.null {
		g.text = fmt.Sprintf("%s %s null", a.text(tested), test.Op)
	}
	return g, ok
}

func isNull(e ast.Expr) bool {
	lit, ok := e.(*ast.BasicLit)
	return ok && lit.Kind == token.NULL
}

// relies reports whether e fails where g finds nothing.
func (a *advisor) relies(e ast.Expr, g guard) bool {
	found := false
	ast.Walk(e, func(n ast.Node) bool {
		switch x := n.(type) {
		case *ast.Comprehension, *ast.StructLit:
			// It may have conditions of its own.
			return false
		case *ast.BinaryExpr:
			if syntax.ComparesWithBottom(x) || x.Op == token.OR || x.Op == token.AND {
				return false
			}
		case *ast.SelectorExpr, *ast.IndexExpr, *ast.Ident:
			path, ok := a.pathOf(x.(ast.Expr), 0)
			if !ok {
				return true
			}
			if within(path, g.path) && (!g.null || path != g.path) {
				found = true
			}
			return false
		}
		return !found
	}, nil)
	return found
}

// within reports whether path is outer or below it.
func within(path, outer string) bool {
	return path == outer || strings.HasPrefix(path, outer+"\x00")
}

// guardedOutside reports whether an enclosing if clause already mentions path.
func (a *advisor) guardedOutside(path string) bool {
	for i, n := range a.stack {
		c, ok := n.(*ast.Comprehension)
		if !ok {
			continue
		}
		for _, clause := range c.Clauses {
			if i+1 < len(a.stack) && a.stack[i+1] == clause {
				break
			}
			condition, ok := clause.(*ast.IfClause)
			if ok && a.names(condition.Condition, path) {
				return true
			}
		}
	}
	return false
}

func (a *advisor) names(e ast.Expr, path string) bool {
	found := false
	ast.Walk(e, func(n ast.Node) bool {
		if x, ok := n.(ast.Expr); ok {
			if p, ok := a.pathOf(x, 0); ok && within(p, path) {
				found = true
			}
		}
		return !found
	}, nil)
	return found
}

// pathOf returns where in the input e surely is, in a form that can be compared; names
// that the source gives to a part of the input are followed.
func (a *advisor) pathOf(e ast.Expr, depth int) (string, bool) {
	if depth > 50 {
		return "", false
	}
	switch x := e.(type) {
	case *ast.ParenExpr:
		return a.pathOf(x.X, depth+1)
	case *ast.SelectorExpr:
		name, ok := syntax.StaticLabel(x.Sel)
		outer, known := a.pathOf(x.X, depth+1)
		return outer + "\x00" + name, ok && known
	case *ast.IndexExpr:
		s := indexStep(x.Index)
		outer, known := a.pathOf(x.X, depth+1)
		if s.isIndex {
			return fmt.Sprintf("%s\x00%d", outer, s.index), known
		}
		return outer + "\x00" + s.name, known && s.isName
	case *ast.Ident:
		return a.pathOfName(x, depth)
	}
	return "", false
}

func (a *advisor) pathOfName(id *ast.Ident, depth int) (string, bool) {
	switch scope := id.Scope.(type) {
	case *ast.ForClause:
		if id.Node == scope.Value {
			return fmt.Sprintf("%p", scope), true
		}
	case *ast.LetClause:
		return a.pathOf(scope.Expr, depth+1)
	case *ast.File:
		if let, ok := id.Node.(*ast.LetClause); ok {
			return a.pathOf(let.Expr, depth+1)
		}
		fields := a.fields[id.Name]
		if len(fields) != 1 {
			return "", false
		}
		if slices.Contains(a.params, id.Name) {
			top, ok := fields[0].Value.(*ast.Ident)
			return id.Name, ok && top.Name == "_"
		}
		return a.pathOf(fields[0].Value, depth+1)
	}
	return "", false
}

// interpolation warns of quotients that become text: v0.4.3 wrote them differently.
func (a *advisor) interpolation(x *ast.Interpolation) {
	for _, elt := range x.Elts {
		if a.contains(elt, isQuotient) {
			a.problem(rule.Warning, x.Pos(),
				"a quotient becomes text here, which reads 2.0 where CUE v0.4.3 wrote 2, and has up to 34 digits instead of 24",
				"make it a whole number with div, math.Round or math.Floor, or choose its form with strconv.FormatFloat")
			return
		}
	}
}

// listComparison warns of lists whose elements v0.4.3 compared differently.
func (a *advisor) listComparison(b *ast.BinaryExpr) {
	for _, side := range []ast.Expr{b.X, b.Y} {
		if a.shapes.Of(side) != syntax.AList {
			continue
		}
		if a.contains(side, func(n ast.Node) bool { _, ok := n.(*ast.StructLit); return ok }) {
			a.problem(rule.Warning, b.OpPos,
				"lists of structs are compared by their content here, where CUE v0.4.3 called them different, always",
				"check that this is what the rule needs")
			return
		}
		if a.contains(side, isFloat) {
			a.problem(rule.Warning, b.OpPos,
				"in lists, 1 and 1.0 are different here, where CUE v0.4.3 called them equal",
				"write whole numbers without a fraction, or compare the elements one by one")
			return
		}
	}
}

func isQuotient(n ast.Node) bool {
	b, ok := n.(*ast.BinaryExpr)
	return ok && b.Op == token.QUO
}

func isComparison(n ast.Node) bool {
	b, ok := n.(*ast.BinaryExpr)
	return ok && slices.Contains([]token.Token{
		token.EQL, token.NEQ, token.LSS, token.LEQ, token.GTR, token.GEQ, token.MAT, token.NMAT,
	}, b.Op)
}

func isFloat(n ast.Node) bool {
	lit, ok := n.(*ast.BasicLit)
	return ok && lit.Kind == token.FLOAT || isQuotient(n)
}

// contains reports whether e, or a value that it refers to, has such a node.
func (i *inspector) contains(e ast.Node, match func(ast.Node) bool) bool {
	seen := map[ast.Node]bool{}
	var look func(ast.Node) bool
	look = func(root ast.Node) bool {
		found := false
		ast.Walk(root, func(n ast.Node) bool {
			if i.looks--; i.looks < 0 {
				return false
			}
			if found || match(n) {
				found = true
				return false
			}
			if call, ok := n.(*ast.CallExpr); ok && wholeNumbers(call) || isComparison(n) {
				return false
			}
			if id, ok := n.(*ast.Ident); ok && id.Node != nil && !seen[id.Node] {
				seen[id.Node] = true
				switch target := id.Node.(type) {
				case *ast.LetClause:
					found = look(target.Expr)
				case ast.Expr:
					found = look(target)
				}
			}
			return !found
		}, nil)
		return found
	}
	return look(e)
}

// wholeNumbers reports whether a call always returns an integer or text.
func wholeNumbers(call *ast.CallExpr) bool {
	switch fun := call.Fun.(type) {
	case *ast.Ident:
		return syntax.ShapeOfCall(call) == syntax.NoList
	case *ast.SelectorExpr:
		pkg, ok := fun.X.(*ast.Ident)
		if !ok {
			return false
		}
		name, _ := syntax.StaticLabel(fun.Sel)
		switch pkg.Name {
		case "strconv", "strings":
			return true
		case "math":
			return slices.Contains([]string{"Round", "Floor", "Ceil", "Trunc", "RoundToEven"}, name)
		}
	}
	return false
}

// text returns how a node is written in the source.
func (a *advisor) text(n ast.Node) string {
	from, to := n.Pos().Offset(), n.End().Offset()
	if from < 0 || to > len(a.source) || from >= to {
		return "the test"
	}
	return a.source[from:to]
}

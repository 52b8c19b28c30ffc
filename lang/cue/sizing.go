package cue

import (
	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/token"

	"github.com/usher-dev/usher/lang/cue/internal/syntax"
)

// eval returns how large the value of x may be.
func (e *estimate) eval(x ast.Expr, in *scope) *extent {
	if !e.enter() {
		return nothing()
	}
	defer func() { e.depth-- }()
	switch x := x.(type) {
	case *ast.ParenExpr:
		return e.eval(x.X, in)
	case *ast.Alias:
		return e.eval(x.Expr, in)
	case *ast.BasicLit:
		return literalExtent(x)
	case *ast.Interpolation:
		return e.interpolation(x, in)
	case *ast.StructLit:
		v := nothing()
		v.lits = []literalIn{{x, in}}
		e.embeds(v)
		return v
	case *ast.ListLit:
		return e.list(x, in)
	case *ast.Ident:
		if v := e.knownOf(x, in); v != nil {
			return v
		}
		return e.ident(x, in)
	case *ast.SelectorExpr:
		if v := e.knownOf(x, in); v != nil {
			return v
		}
		if name, ok := syntax.StaticLabel(x.Sel); ok {
			return e.field(e.eval(x.X, in), name)
		}
	case *ast.IndexExpr:
		return e.index(x, in)
	case *ast.SliceExpr:
		return e.eval(x.X, in)
	case *ast.UnaryExpr:
		return e.unary(x, in)
	case *ast.BinaryExpr:
		return e.binary(x, in)
	case *ast.CallExpr:
		return e.call(x, in)
	}
	return nothing()
}

func (e *estimate) interpolation(x *ast.Interpolation, in *scope) *extent {
	v := nothing()
	v.text = 0
	texts, ok := syntax.Texts(x)
	for i, elt := range x.Elts {
		if i%2 == 0 && ok {
			v.text += float64(len(texts[i/2]))
			continue
		}
		part := e.eval(elt, in)
		v.text += part.written()
		v.cost += e.use(elt, part)
	}
	return e.checked(x, v)
}

func (e *estimate) list(x *ast.ListLit, in *scope) *extent {
	v := nothing()
	for _, elt := range x.Elts {
		switch elt := elt.(type) {
		case *ast.Ellipsis:
			if elt.Type != nil {
				v.parts = append(v.parts, part{value: e.eval(elt.Type, in)})
			}
		case *ast.Comprehension:
			body, rounds, live := e.clauses(elt, in, v)
			if !live {
				continue
			}
			v.parts = append(v.parts, part{e.eval(elt.Value, body), rounds})
			v.members += rounds
			e.checkMade(elt, v.members)
		default:
			v.parts = append(v.parts, part{e.eval(elt, in), 1})
			v.members++
		}
	}
	return v
}

// clauses returns the scope of the body of a comprehension, how often that is evaluated,
// and whether its conditions may hold; what the clauses take is added to v.
func (e *estimate) clauses(c *ast.Comprehension, in *scope, v *extent) (body *scope, rounds float64, live bool) {
	rounds = 1
	for _, clause := range c.Clauses {
		switch clause := clause.(type) {
		case *ast.ForClause:
			source := e.eval(clause.Source, in)
			v.cost += rounds * e.use(clause.Source, source)
			rounds *= e.count(source)
			key := nothing()
			key.text, key.number, key.least = 256, longestMade, 1
			in = &scope{outer: in, node: clause, value: e.anyOf(source), key: key}
		case *ast.LetClause:
			value := e.eval(clause.Expr, in)
			v.cost += rounds * e.use(clause.Expr, value)
			in = &scope{outer: in, node: clause, value: value}
		case *ast.IfClause:
			v.cost += rounds * e.use(clause.Condition, e.eval(clause.Condition, in))
			if in, live = e.assume(clause.Condition, in); !live {
				return in, 0, false
			}
		}
	}
	v.cost += rounds
	if v.cost > e.bounds.total {
		e.exceed(c, "may take more than %s steps", amount(e.bounds.total))
	}
	return in, rounds, true
}

func (e *estimate) ident(id *ast.Ident, in *scope) *extent {
	switch node := id.Node.(type) {
	case nil, *ast.ImportSpec:
		return nothing()
	case *ast.LetClause:
		if s := in.at(id.Scope); s != nil {
			return e.let(node, node.Expr, s)
		}
		return nothing()
	case *ast.Alias:
		s := in.at(id.Scope)
		if s == nil {
			return nothing()
		}
		if _, ok := s.node.(*ast.Field); ok {
			return s.value
		}
		return e.let(node, node.Expr, s)
	case *ast.Field:
		return e.aliased(node, id, in)
	}
	s := in.at(id.Scope)
	if s == nil {
		return nothing()
	}
	switch scope := s.node.(type) {
	case *ast.ForClause:
		if id.Node == scope.Key {
			return s.key
		}
		return s.value
	case *ast.LetClause:
		return s.value
	case *ast.Field:
		// The alias of a pattern: any field name.
		name := nothing()
		name.text = 256
		return name
	}
	return e.field(s.value, id.Name)
}

// aliased returns the value of a field that goes by an alias.
func (e *estimate) aliased(field *ast.Field, id *ast.Ident, in *scope) *extent {
	if s := in.at(field); s != nil {
		return s.value
	}
	s := in.at(id.Scope)
	if s == nil {
		return nothing()
	}
	label := field.Label
	if alias, ok := label.(*ast.Alias); ok {
		label, _ = alias.Expr.(ast.Label)
	}
	if label != nil {
		if name, ok := syntax.StaticLabel(label); ok {
			return e.field(s.value, name)
		}
	}
	return e.let(field, field.Value, s)
}

// let returns the value of a name that stands for x, evaluated once in each scope.
func (e *estimate) let(node ast.Node, x ast.Expr, in *scope) *extent {
	if v, ok := in.lets[node]; ok {
		return v
	}
	if in.lets == nil {
		in.lets = map[ast.Node]*extent{}
	}
	in.lets[node] = nothing()
	in.lets[node] = e.eval(x, in)
	return in.lets[node]
}

func (e *estimate) index(x *ast.IndexExpr, in *scope) *extent {
	of := e.eval(x.X, in)
	switch s := indexStep(x.Index); {
	case s.isName:
		return e.field(of, s.name)
	case s.isIndex:
		return e.element(of, s.index)
	}
	v := nothing()
	v.alts = []*extent{e.anyOf(of)}
	v.settle()
	v.cost = e.use(x.Index, e.eval(x.Index, in))
	return v
}

func (e *estimate) unary(x *ast.UnaryExpr, in *scope) *extent {
	v := e.eval(x.X, in)
	switch x.Op {
	case token.MUL:
		return v
	case token.ADD, token.SUB:
		n := nothing()
		n.number, n.least, n.cost = v.number, v.least, e.use(x.X, v)
		if n.exact = v.exact; x.Op == token.SUB {
			n.signed = -v.signed
		} else {
			n.signed = v.signed
		}
		return n
	}
	n := nothing()
	n.cost = e.use(x.X, v)
	return n
}

func (e *estimate) binary(b *ast.BinaryExpr, in *scope) *extent {
	x, y := e.eval(b.X, in), e.eval(b.Y, in)
	switch b.Op {
	case token.AND:
		return e.unify(x, y)
	case token.OR:
		v := nothing()
		v.alts, v.each = []*extent{x, y}, true
		v.settle()
		return v
	}
	v := nothing()
	v.cost = e.use(b.X, x) + e.use(b.Y, y)
	switch b.Op {
	case token.ADD:
		v.text = sum(x.text, y.text)
		v.number = sum(x.number, y.number)
		e.concat(v, 1, x, y)
		e.checkMade(b, v.members)
	case token.MUL:
		v.text = max(times(x.text, y.number), times(y.text, x.number))
		v.number = product(x.number, y.number)
		// Others than those that surely are of a list fail if they are.
		if e.shapes.Of(b.X) == syntax.AList || e.shapes.Of(b.Y) == syntax.AList {
			e.concat(v, y.number, x)
			e.concat(v, x.number, y)
			e.checkMade(b, v.members)
		}
	case token.SUB:
		v.number = sum(x.number, y.number)
	case token.QUO:
		v.number = x.number
		if y.number >= 0 {
			v.number = x.number / max(y.least, 1e-34)
		}
	}
	if n, ok := compute(b.Op, x, y); ok {
		exactly(v, n)
	}
	return e.checked(b, v)
}

// concat makes v a list of the members of lists, each of them n times.
func (e *estimate) concat(v *extent, n float64, lists ...*extent) {
	for _, list := range lists {
		if !list.isList() || n < 0 {
			continue
		}
		count := e.count(list)
		v.members += n * count
		if len(list.trees)+len(list.alts) > 0 || len(list.parts) > manyParts {
			v.parts = append(v.parts, part{e.anyOf(list), n * count})
			continue
		}
		for _, p := range list.parts {
			v.parts = append(v.parts, part{p.value, n * p.times})
		}
	}
}

// checked records it if v, which node makes, is too long a text.
func (e *estimate) checked(node ast.Node, v *extent) *extent {
	if v.text > e.bounds.text {
		e.exceed(node, "may become a text of more than %s bytes", amount(e.bounds.text))
	}
	return v
}

// checkMade records it if node may make a list of too many members.
func (e *estimate) checkMade(node ast.Node, members float64) {
	if members > longestMade {
		e.exceed(node, "may make a list of more than %d members", longestMade)
	}
}

// use is what it takes to evaluate x, whose value is v, as an operand: a field that is
// mentioned has been evaluated already, unless it is a struct or list, which is copied.
func (e *estimate) use(x ast.Expr, v *extent) float64 {
	for {
		p, ok := x.(*ast.ParenExpr)
		if !ok {
			break
		}
		x = p.X
	}
	switch x.(type) {
	case *ast.Ident, *ast.SelectorExpr:
		if v.isScalar() {
			return 1 + max(v.text, 0)
		}
	}
	return e.total(v)
}

package cue

import (
	"slices"

	"cuelang.org/go/cue/ast"

	"github.com/usher-dev/usher/lang/cue/internal/syntax"
)

// unify returns what both x and y may add to.
func (e *estimate) unify(x, y *extent) *extent {
	v := nothing()
	e.join(v, x)
	e.join(v, y)
	e.embeds(v)
	return v
}

// join unifies v with other: each of the two may add to the other.
func (e *estimate) join(v, other *extent) {
	e.steps -= len(other.lits)*(len(v.lits)+1)/16 + len(other.parts) + len(other.trees) + len(other.alts)
	switch {
	case other.number < 0:
	case v.number < 0:
		v.exact, v.signed = other.exact, other.signed
	default:
		v.exact = v.exact && other.exact && v.signed == other.signed
	}
	v.text = max(v.text, other.text)
	v.number = max(v.number, other.number)
	v.least = min(v.least, other.least)
	v.cost += other.cost
	v.members += other.members
	v.parts = append(v.parts, other.parts...)
	v.trees = append(v.trees, other.trees...)
	if other.any != nil {
		v.any = other.any
	}
	if other.ways > 1 {
		v.ways = max(v.ways, 1) * other.ways
	}
	for _, lit := range other.lits {
		if !slices.Contains(v.lits, lit) {
			v.lits = append(v.lits, lit)
		}
	}
	if len(v.alts) == 0 && !slices.ContainsFunc(other.alts, (*extent).hasLits) {
		// What refers to nothing cannot come to refer to something else by unification.
		v.alts, v.each = other.alts, other.each
		return
	}
	for _, a := range other.alts {
		ways := v.ways
		e.join(v, a)
		v.ways = ways
	}
}

// embeds adds to v what its literals embed, which may depend on what v has become.
func (e *estimate) embeds(v *extent) {
	for i := 0; i < len(v.lits) && e.excess == nil; i++ {
		lit := v.lits[i]
		known := len(v.lits)
		e.embedIn(v, syntax.Decls(lit.node), e.inside(v, lit))
		if len(v.lits) > known {
			v.fields = nil
		}
	}
}

// inside returns the scope of what is in a literal of v.
func (e *estimate) inside(v *extent, lit literalIn) *scope {
	return &scope{outer: lit.in, node: lit.node, value: v}
}

func (e *estimate) embedIn(v *extent, decls []ast.Decl, in *scope) {
	for _, decl := range decls {
		switch d := decl.(type) {
		case *ast.EmbedDecl:
			e.join(v, e.eval(d.Expr, in))
		case *ast.Comprehension:
			body, ok := d.Value.(*ast.StructLit)
			if !ok {
				continue
			}
			inner, _, live := e.clauses(d, in, &extent{})
			if !live {
				continue
			}
			e.embedIn(v, body.Elts, &scope{outer: inner, node: body, value: v})
		}
	}
}

// A visit is what walk calls for every field that a literal declares: the name, "" for
// any, and how often it is declared.
type visit func(field *ast.Field, name string, in *scope, times float64)

// walk visits the fields that v declares.
func (e *estimate) walk(v *extent, cost *extent, f visit) {
	for _, lit := range v.lits {
		e.walkDecls(v, syntax.Decls(lit.node), e.inside(v, lit), 1, cost, f)
	}
}

func (e *estimate) walkDecls(v *extent, decls []ast.Decl, in *scope, times float64, cost *extent, f visit) {
	for _, decl := range decls {
		switch d := decl.(type) {
		case *ast.Field:
			label := labelOf(d)
			name, ok := syntax.StaticLabel(label)
			if !ok {
				name = ""
			}
			f(d, name, in, times)
		case *ast.Comprehension:
			body, ok := d.Value.(*ast.StructLit)
			if !ok || !e.enter() {
				continue
			}
			took := &extent{}
			inner, rounds, live := e.clauses(d, in, took)
			cost.cost += times * took.cost
			if live {
				e.walkDecls(v, body.Elts, &scope{outer: inner, node: body, value: v}, times*rounds, cost, f)
			}
			e.depth--
		}
	}
}

// An index has the declarations of a literal by the name of the field, and those that may
// be of any.
type index struct {
	named  map[string][]ast.Decl
	others []ast.Decl
}

// declared visits the fields that v declares under a name, and those that may have it.
func (e *estimate) declared(v *extent, name string, f visit) {
	for _, lit := range v.lits {
		x, ok := e.indices[lit.node]
		if !ok {
			x = indexOf(syntax.Decls(lit.node))
			e.indices[lit.node] = x
		}
		in := e.inside(v, lit)
		e.walkDecls(v, x.named[name], in, 1, &extent{}, f)
		e.walkDecls(v, x.others, in, 1, &extent{}, f)
	}
}

func indexOf(decls []ast.Decl) *index {
	x := &index{named: map[string][]ast.Decl{}}
	for _, decl := range decls {
		if field, ok := decl.(*ast.Field); ok {
			if name, ok := syntax.StaticLabel(labelOf(field)); ok {
				x.named[name] = append(x.named[name], decl)
				continue
			}
		}
		x.others = append(x.others, decl)
	}
	return x
}

// labelOf returns a field's label without its alias.
func labelOf(field *ast.Field) ast.Node {
	if alias, ok := field.Label.(*ast.Alias); ok {
		return alias.Expr
	}
	return field.Label
}

// field returns the extent of one field of v.
func (e *estimate) field(v *extent, name string) *extent {
	if f, ok := v.fields[name]; ok {
		return f
	}
	if v.fields == nil {
		v.fields = map[string]*extent{}
	}
	v.fields[name] = nothing()
	var found []*extent
	e.declared(v, name, func(field *ast.Field, declared string, in *scope, _ float64) {
		if declared == name || declared == "" {
			found = append(found, e.fieldValue(field, in))
		}
	})
	if v.any != nil {
		found = append(found, inputExtent(*v.any))
	}
	for _, tree := range v.trees {
		if object, ok := tree.(map[string]any); ok {
			if child, ok := object[name]; ok {
				found = append(found, treeExtent(child))
			}
		}
	}
	f := e.together(found)
	if alts := e.ofAlts(v, func(a *extent) *extent { return e.field(a, name) }); alts != nil {
		f = alts.orUnified(e, f, len(found) > 0)
	}
	if v.fields == nil {
		v.fields = map[string]*extent{}
	}
	v.fields[name] = f
	return f
}

// orUnified returns v, or what it and f add up to if f is there.
func (v *extent) orUnified(e *estimate, f *extent, there bool) *extent {
	if !there {
		return v
	}
	return e.unify(v, f)
}

// ofAlts returns what of each of the alternatives of v is chosen by one, nil if v has no
// alternatives.
func (e *estimate) ofAlts(v *extent, one func(*extent) *extent) *extent {
	if len(v.alts) == 0 {
		return nil
	}
	joined := nothing()
	for _, a := range v.alts {
		if e.excess != nil {
			break
		}
		joined.alts = append(joined.alts, one(a))
	}
	if len(joined.alts) == 1 {
		return joined.alts[0]
	}
	joined.settle()
	return joined
}

// together returns what several declarations add up to.
func (e *estimate) together(found []*extent) *extent {
	if len(found) == 1 {
		return found[0]
	}
	v := nothing()
	for _, f := range found {
		e.join(v, f)
	}
	e.embeds(v)
	return v
}

// fieldValue returns the extent of the value that one declaration gives a field.
func (e *estimate) fieldValue(field *ast.Field, in *scope) *extent {
	if !e.enter() {
		return nothing()
	}
	defer func() { e.depth-- }()
	inner := &scope{outer: in, node: field, value: nothing()}
	value := field.Value
	if value == nil {
		return nothing()
	}
	inner.value = e.eval(value, inner)
	return inner.value
}

// element returns the extent of the i-th member of v.
func (e *estimate) element(v *extent, i int) *extent {
	if len(v.trees) == 1 && len(v.lits)+len(v.parts)+len(v.alts) == 0 && v.any == nil {
		list, ok := v.trees[0].([]any)
		if !ok || i >= len(list) {
			return nothing()
		}
		return treeExtent(list[i])
	}
	return e.anyOf(v)
}

// anyOf returns the extent of any member or field of v.
func (e *estimate) anyOf(v *extent) *extent {
	if v.anyMember != nil {
		return v.anyMember
	}
	v.anyMember = nothing()
	joined := nothing()
	e.walk(v, &extent{}, func(field *ast.Field, name string, in *scope, _ float64) {
		if name != "" {
			joined.alts = append(joined.alts, e.field(v, name))
			return
		}
		joined.alts = append(joined.alts, e.fieldValue(field, in))
	})
	for _, p := range v.parts {
		joined.alts = append(joined.alts, p.value)
	}
	for _, tree := range v.trees {
		switch t := tree.(type) {
		case map[string]any:
			e.steps -= len(t)
			for _, child := range t {
				joined.alts = append(joined.alts, treeExtent(child))
			}
		case []any:
			e.steps -= len(t)
			for _, child := range t {
				joined.alts = append(joined.alts, treeExtent(child))
			}
		}
	}
	if v.any != nil {
		joined.alts = append(joined.alts, inputExtent(*v.any))
	}
	for _, a := range v.alts {
		joined.alts = append(joined.alts, e.anyOf(a))
	}
	if len(joined.alts) == 1 {
		joined = joined.alts[0]
	}
	joined.settle()
	v.anyMember = joined
	return joined
}

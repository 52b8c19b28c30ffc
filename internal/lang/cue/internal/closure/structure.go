package closure

import (
	"maps"
	"slices"
	"strings"

	"cuelang.org/go/cue/ast"

	"github.com/usher-dev/usher/internal/lang/cue/internal/syntax"
)

// A collector collects the results of the body of a comprehension.
type collector struct {
	list   []any
	fields *structure
}

// An emitter adds to a collector, and reports whether the result is certain.
type emitter func(m *machine, f *frame, into *collector) bool

func (t *translator) list(x *ast.ListLit, in *env) code {
	var emitters []emitter
	for _, elt := range x.Elts {
		switch elt := elt.(type) {
		case *ast.Ellipsis:
			return t.cannot(elt, "it has an open list")
		case *ast.Comprehension:
			if elt.Fallback != nil {
				return t.cannot(elt, "it has an else clause")
			}
			emitters = append(emitters, t.clauses(elt.Clauses, in, func(in *env) emitter {
				return appending(t.expr(elt.Value, in))
			}))
		default:
			emitters = append(emitters, appending(t.expr(elt, in)))
		}
	}
	return func(m *machine, f *frame) (any, status) {
		into := collector{list: m.list(len(emitters))}
		for _, emit := range emitters {
			if !emit(m, f, &into) {
				return nil, unclear
			}
		}
		return into.list, known
	}
}

func appending(value code) emitter {
	return func(m *machine, f *frame, into *collector) bool {
		v, s := value(m, f)
		if s > choice || isOpen(v) || !m.spend(1) {
			return false
		}
		into.list = append(into.list, held(v, s))
		return true
	}
}

// clauses translates the clauses of a comprehension around its body.
func (t *translator) clauses(clauses []ast.Clause, in *env, body func(*env) emitter) emitter {
	if len(clauses) == 0 {
		return body(in)
	}
	switch clause := clauses[0].(type) {
	case *ast.IfClause:
		test := t.condition(clause.Condition, in)
		then := t.clauses(clauses[1:], in, body)
		return func(m *machine, f *frame, into *collector) bool {
			v, s := test(m, f)
			holds, ok := v.(bool)
			if !ok || s > choice {
				return false
			}
			return !holds || then(m, f, into)
		}
	case *ast.LetClause:
		value := t.expr(clause.Expr, in)
		inner := &env{outer: in, names: map[ast.Node]map[string]int{}}
		inner.add(clause, clause.Ident.Name, 0)
		then := t.clauses(clauses[1:], inner, body)
		return func(m *machine, f *frame, into *collector) bool {
			v, s, doubt := m.eval(value, f)
			if s == unclear {
				return false
			}
			f = &frame{outer: f, slots: make([]slot, 1)}
			f.set(0, v, s, doubt)
			return then(m, f, into)
		}
	case *ast.ForClause:
		return t.loop(clause, clauses[1:], in, body)
	}
	t.cannot(clauses[0], "it has a try clause")
	return nil
}

func (t *translator) loop(clause *ast.ForClause, clauses []ast.Clause, in *env, body func(*env) emitter) emitter {
	source := t.condition(clause.Source, in)
	inner := &env{outer: in, names: map[ast.Node]map[string]int{}}
	if clause.Key != nil {
		inner.add(clause, clause.Key.Name, 0)
	}
	inner.add(clause, clause.Value.Name, 1)
	then := t.clauses(clauses, inner, body)
	return func(m *machine, f *frame, into *collector) bool {
		v, s, doubt := m.eval(source, f)
		if s > choice {
			return false
		}
		f = &frame{outer: f, slots: make([]slot, 2)}
		round := func(key, v any) bool {
			f.set(0, key, known, doubt)
			v, s := member(v)
			f.set(1, v, s, doubt)
			return m.spend(1) && then(m, f, into)
		}
		return m.each(v, round)
	}
}

// each calls round for what a loop over v is for, until it returns false. It returns whether it was called for
// everything.
func (m *machine) each(v any, round func(key, v any) bool) bool {
	switch v := v.(type) {
	case []any:
		for i, v := range v {
			if !round(int64(i), v) {
				return false
			}
		}
		return true
	case map[string]any:
		if !m.spend(len(v)) {
			return false
		}
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if !round(key, v[key]) {
				return false
			}
		}
		return true
	case *structure:
		if v.unordered && len(v.names) > 1 {
			return false
		}
		for i, name := range v.names {
			if !isHidden(name) && !round(name, v.values[i]) {
				return false
			}
		}
		return true
	}
	return false
}

// structure translates a struct literal.
func (t *translator) structure(x *ast.StructLit, in *env) code {
	for _, elt := range x.Elts {
		if embed, ok := elt.(*ast.EmbedDecl); ok {
			return t.embedding(x, embed, in)
		}
	}
	if t.mentioned[x] || t.mentioned.within(x.Elts) {
		return t.lazyStructure(x, in)
	}
	if names, values := plain(x.Elts); names != nil {
		return t.plainStructure(x, names, values, in)
	}
	emit, unordered := t.fields(x.Elts, in), !isPlain(x.Elts)
	return func(m *machine, f *frame) (any, status) {
		into := collector{fields: &structure{unordered: unordered}}
		if !emit(m, f, &into) {
			return nil, unclear
		}
		return into.fields, known
	}
}

// isPlain reports whether all fields have literal names.
func isPlain(decls []ast.Decl) bool {
	return !slices.ContainsFunc(decls, func(decl ast.Decl) bool {
		field, ok := decl.(*ast.Field)
		if !ok {
			return true
		}
		_, static := syntax.StaticLabel(field.Label)
		return !static
	})
}

// plain returns the names and values of a few fields that are written out, with different
// names, if that is all.
func plain(decls []ast.Decl) (names []string, values []ast.Expr) {
	for _, decl := range decls {
		field, ok := decl.(*ast.Field)
		if !ok || len(names) == fewFields {
			return nil, nil
		}
		name, ok := syntax.StaticLabel(field.Label)
		if !ok || slices.Contains(names, name) {
			return nil, nil
		}
		names, values = append(names, name), append(values, field.Value)
	}
	return slices.Clip(names), values
}

// plainStructure translates a struct of such fields.
func (t *translator) plainStructure(x *ast.StructLit, names []string, values []ast.Expr, in *env) code {
	codes := make([]code, len(values))
	for i, elt := range x.Elts {
		if _, ok := t.fieldName(elt.(*ast.Field)); ok {
			codes[i] = t.expr(values[i], in)
		}
	}
	return func(m *machine, f *frame) (any, status) {
		made := m.structure(names)
		for _, c := range codes {
			v, s := c(m, f)
			if s > choice || isOpen(v) {
				return nil, unclear
			}
			made.values = append(made.values, held(v, s))
		}
		return made, known
	}
}

// Scopes are files and structs, by what declares their names.
type scopes map[ast.Node]bool

// within reports whether one of them is that of conditional declarations.
func (s scopes) within(decls []ast.Decl) bool {
	for _, decl := range decls {
		if c, ok := decl.(*ast.Comprehension); ok {
			body, ok := c.Value.(*ast.StructLit)
			if ok && (s[body] || s.within(body.Elts)) {
				return true
			}
		}
	}
	return false
}

// embedding translates a struct that is nothing but the value that it embeds.
func (t *translator) embedding(x *ast.StructLit, embed *ast.EmbedDecl, in *env) code {
	if len(x.Elts) != 1 {
		return t.cannot(embed, "it embeds a value beside others")
	}
	return t.expr(embed.Expr, in)
}

// lazyStructure translates a struct that refers to its own fields.
func (t *translator) lazyStructure(x *ast.StructLit, in *env) code {
	p, _ := t.lazy(x, in)
	return func(m *machine, f *frame) (any, status) {
		f = p.frame(f)
		v := &structure{unordered: len(p.conditions) > 0}
		for _, i := range p.conditions {
			if _, s := f.get(m, i); s > choice {
				return nil, unclear
			}
		}
		for _, i := range p.fields {
			field, s := f.get(m, i)
			if _, ok := field.(inactive); ok {
				continue
			}
			if s > choice || isOpen(field) {
				return nil, unclear
			}
			v.add(p.names[i], held(field, s))
		}
		return v, known
	}
}

// fields translates the fields of a struct that are made one after the other.
func (t *translator) fields(decls []ast.Decl, in *env) emitter {
	var emitters []emitter
	for _, decl := range decls {
		switch d := decl.(type) {
		case *ast.Field:
			emitters = append(emitters, t.fieldEmitter(d, in))
		case *ast.Comprehension:
			body, ok := d.Value.(*ast.StructLit)
			if !ok || d.Fallback != nil {
				t.cannot(d, "it has an else clause")
				return nil
			}
			emitters = append(emitters, t.clauses(d.Clauses, in, func(in *env) emitter { return t.fields(body.Elts, in) }))
		case *ast.CommentGroup, *ast.Attribute:
		default:
			t.cannot(decl, "it embeds a value in a struct")
			return nil
		}
	}
	return func(m *machine, f *frame, into *collector) bool {
		for _, emit := range emitters {
			if !emit(m, f, into) {
				return false
			}
		}
		return true
	}
}

func (t *translator) fieldEmitter(d *ast.Field, in *env) emitter {
	if d.Alias == nil && d.Value != nil {
		switch label := d.Label.(type) {
		case *ast.ParenExpr:
			t.long = true
			return dynamicField(t.expr(label.X, in), t.expr(d.Value, in))
		case *ast.Interpolation:
			t.long = true
			return dynamicField(t.expr(label, in), t.expr(d.Value, in))
		}
	}
	name, ok := t.fieldName(d)
	if !ok {
		return nil
	}
	value := t.expr(d.Value, in)
	return func(m *machine, f *frame, into *collector) bool {
		v, s := value(m, f)
		return s <= choice && !isOpen(v) && into.unify(m, name, v, s)
	}
}

func dynamicField(label, value code) emitter {
	return func(m *machine, f *frame, into *collector) bool {
		l, s := label(m, f)
		name, ok := l.(string)
		if !ok || s > choice || strings.HasPrefix(name, "_") || strings.HasPrefix(name, "#") {
			return false
		}
		v, s := value(m, f)
		return s <= choice && !isOpen(v) && m.spend(2) && into.unify(m, name, v, s)
	}
}

// unify adds the field to the struct, or reports that only the evaluator can unify it with an
// existing one.
func (c *collector) unify(m *machine, name string, v any, s status) bool {
	if c.fields.add(name, held(v, s)) {
		return true
	}
	i, _ := c.fields.find(name)
	return s == known && m.sameScalar(c.fields.values[i], v)
}

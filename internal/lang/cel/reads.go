package cel

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/jsontree"
)

// Reads are what expressions read. The zero Reads are empty; Paths do not change after the last Add.
type Reads struct {
	// names are the variables that occur.
	names map[string]bool
	// read are the paths whose values are read with everything below, by the name of the variable, and
	// whole what they are without lists whose elements are read in part; present are those of which an
	// expression asks whether there is a value, or null.
	read, whole, present map[string][][]string
	// loops counts the loops.
	loops int
}

// A Provenance says what a value is a part of.
type Provenance struct {
	origins []origin
	// fields are those of the variable record, where the value may be that.
	record string
	fields map[string]Provenance
}

// A value that may come from more places, or from deeper in one, counts as a part of what these are in:
// what an expression reads may be more than it says, never less.
const (
	mostOrigins = 64
	mostSteps   = 64
)

type origin struct {
	name string
	path []string
}

// Variable is the source of a variable.
func Variable(name string) Provenance { return Provenance{origins: []origin{{name: name}}} }

// VariableFields is the source of a variable whose fields have sources of their own, none of which has
// fields. Fields may be added until the last expression is.
func VariableFields(name string, fields map[string]Provenance) Provenance {
	return Provenance{origins: []origin{{name: name}}, record: name, fields: fields}
}

// HasFields reports whether the value may be that of a variable with fields.
func (s Provenance) HasFields() bool { return s.fields != nil }

// Add adds what an expression reads, and returns the source of its value: the value itself counts as
// read only if it is added with [Reads.AddValue]. Names have the sources of the variables.
func (r *Reads) Add(ast *cel.Ast, names map[string]Provenance) Provenance {
	t := tracing{reads: r, scope: names}
	return t.expression(ast.NativeRep().Expr())
}

// AddValue adds a value with everything below.
func (r *Reads) AddValue(s Provenance) {
	for _, o := range s.origins {
		if r.read == nil {
			r.read, r.whole = map[string][][]string{}, map[string][][]string{}
		}
		whole := o.path
		if at := slices.Index(whole, jsontree.Element); at >= 0 {
			whole = whole[:at]
		}
		r.read[o.name] = appendPath(r.read[o.name], o.path)
		r.whole[o.name] = appendPath(r.whole[o.name], whole)
	}
	for _, field := range s.fields {
		r.AddValue(field)
	}
}

// addPresence adds that there is a value.
func (r *Reads) addPresence(s Provenance) {
	for _, o := range s.origins {
		if r.present == nil {
			r.present = map[string][][]string{}
		}
		r.present[o.name] = appendPresence(r.present[o.name], o.path)
	}
}

// appendPresence adds the path of a value that is asked for, unless something in the value is: that
// decodes what it is in, but not the other way round.
func appendPresence(paths [][]string, path []string) [][]string {
	if slices.ContainsFunc(paths, func(p []string) bool { return within(p, path) }) {
		return paths
	}
	paths = slices.DeleteFunc(paths, func(p []string) bool { return within(path, p) })
	return append(paths, path)
}

// appendPath adds a path unless one of paths leads to it, or to what it is in.
func appendPath(paths [][]string, path []string) [][]string {
	if slices.ContainsFunc(paths, func(p []string) bool { return within(path, p) }) {
		return paths
	}
	paths = slices.DeleteFunc(paths, func(p []string) bool { return within(p, path) })
	return append(paths, path)
}

func within(inner, outer []string) bool {
	return len(outer) <= len(inner) && slices.Equal(inner[:len(outer)], outer)
}

// Mentions reports whether a variable occurs.
func (r *Reads) Mentions(name string) bool { return r.names[name] }

// Only reports whether no variables occur but those with the names.
func (r *Reads) Only(names ...string) bool {
	for name := range r.names {
		if !slices.Contains(names, name) {
			return false
		}
	}
	return true
}

// Paths returns the paths below a variable that are read.
func (r *Reads) Paths(name string) *usher.Paths {
	paths := &usher.Paths{}
	for _, path := range r.read[name] {
		paths.Add(path...)
	}
	for _, path := range r.present[name] {
		paths.Add(append(slices.Clone(path), jsontree.Presence)...)
	}
	return paths
}

// Whole returns the paths below a variable whose values are read with everything below, or are lists
// whose elements are. They are shared: do not change them.
func (r *Reads) Whole(name string) [][]string { return r.whole[name] }

// A tracing follows values through one expression.
type tracing struct {
	reads *Reads
	scope map[string]Provenance
}

func (t *tracing) expression(e celast.Expr) Provenance {
	switch e.Kind() {
	case celast.IdentKind:
		return t.ident(e.AsIdent())
	case celast.SelectKind:
		s := t.expression(e.AsSelect().Operand()).field(e.AsSelect().FieldName())
		if e.AsSelect().IsTestOnly() {
			t.reads.addPresence(s)
			return Provenance{}
		}
		return s
	case celast.CallKind:
		return t.call(e)
	case celast.ComprehensionKind:
		return t.loop(e.AsComprehension())
	case celast.ListKind:
		return t.list(Parts(e))
	case celast.MapKind, celast.StructKind, celast.LiteralKind, celast.UnspecifiedExprKind:
		t.consume(Parts(e)...)
	}
	return Provenance{}
}

// list returns the source of a list of values: those that are elements of a list count as this list.
func (t *tracing) list(elements []celast.Expr) Provenance {
	var of Provenance
	for _, e := range elements {
		s := t.expression(e)
		if list, ok := s.elementsOf(); ok {
			of = of.or(list)
		} else {
			t.reads.AddValue(s)
		}
	}
	return of
}

// elementsOf returns what the value is an element of, if it is one wherever it comes from.
func (s Provenance) elementsOf() (Provenance, bool) {
	if s.fields != nil {
		return Provenance{}, false
	}
	var of Provenance
	for _, o := range s.origins {
		last := len(o.path) - 1
		if last < 0 || o.path[last] != jsontree.Element {
			return Provenance{}, false
		}
		of.origins = append(of.origins, origin{o.name, o.path[:last:last]})
	}
	return of, true
}

// addLength adds that there is a list, and how many elements it has; of another value, everything.
func (r *Reads) addLength(s Provenance) {
	r.AddValue(s.field(jsontree.Element).field(jsontree.Presence))
	for _, field := range s.fields {
		r.AddValue(field)
	}
}

// consume reads the values of expressions with everything below.
func (t *tracing) consume(all ...celast.Expr) {
	for _, e := range all {
		t.reads.AddValue(t.expression(e))
	}
}

func (t *tracing) ident(name string) Provenance {
	s, ok := t.scope[name]
	if !ok {
		return Provenance{}
	}
	for _, o := range s.origins {
		if t.reads.names == nil {
			t.reads.names = map[string]bool{}
		}
		t.reads.names[o.name] = true
	}
	return s
}

func (s Provenance) field(name string) Provenance {
	field, known := s.fields[name]
	var part Provenance
	for _, o := range s.origins {
		switch {
		case known && o.name == s.record:
		case len(o.path) >= mostSteps:
			part.origins = append(part.origins, o)
		default:
			part.origins = append(part.origins, origin{o.name, append(slices.Clone(o.path), name)})
		}
	}
	if !known {
		return part
	}
	return field.or(part)
}

func (s Provenance) or(other Provenance) Provenance {
	both := s
	if s.fields == nil {
		both.record, both.fields = other.record, other.fields
	}
	both.origins = slices.Clone(s.origins)
	for _, o := range other.origins {
		if len(both.origins) >= mostOrigins {
			o.path = nil
			for i := range both.origins {
				both.origins[i].path = nil
			}
			slices.SortFunc(both.origins, func(a, b origin) int { return strings.Compare(a.name, b.name) })
			both.origins = slices.CompactFunc(both.origins, origin.equal)
		}
		if !slices.ContainsFunc(both.origins, o.equal) {
			both.origins = append(both.origins, o)
		}
	}
	return both
}

func (o origin) equal(other origin) bool {
	return o.name == other.name && slices.Equal(o.path, other.path)
}

func (t *tracing) call(e celast.Expr) Provenance {
	args := Parts(e)
	switch function := e.AsCall().FunctionName(); function {
	case operators.Index, operators.OptIndex, operators.OptSelect:
		if key, ok := textOf(args[1]); ok {
			return t.expression(args[0]).field(key)
		}
	case operators.Conditional:
		t.consume(args[0])
		return t.expression(args[1]).or(t.expression(args[2]))
	case "or", "orValue":
		return t.expression(args[0]).or(t.expression(args[1]))
	case "value", "optional.of", "dyn", "optional.unwrap":
		if len(args) == 1 && function != "optional.unwrap" {
			return t.expression(args[0])
		}
	case operators.Add:
		// Concatenated lists have the elements of both; other values are read by what uses the result.
		return t.expression(args[0]).or(t.expression(args[1]))
	case "size":
		t.reads.addLength(t.expression(args[0]))
		return Provenance{}
	case "hasValue", "type":
		t.reads.addPresence(t.expression(args[0]))
		return Provenance{}
	case operators.Equals, operators.NotEquals:
		for i, arg := range args {
			if isNull(arg) {
				t.reads.addPresence(t.expression(args[1-i]))
				return Provenance{}
			}
		}
	}
	t.consume(args...)
	return Provenance{}
}

func (t *tracing) loop(c celast.ComprehensionExpr) Provenance {
	if IsEmptyList(c.IterRange()) {
		return t.within(map[string]Provenance{c.AccuVar(): t.expression(c.AccuInit())}).expression(c.Result())
	}
	list := t.expression(c.IterRange())
	t.reads.addLength(list)
	names := map[string]Provenance{c.IterVar(): list.field(jsontree.Element)}
	if c.HasIterVar2() {
		names[c.IterVar()], names[c.IterVar2()] = Provenance{}, names[c.IterVar()]
	}
	made := t.expression(c.AccuInit())
	collected := fmt.Sprintf("\x00%d", t.reads.loops)
	t.reads.loops++
	names[c.AccuVar()] = Variable(collected)
	inside := t.within(names)
	inside.consume(c.LoopCondition())
	made, taken := made.or(inside.expression(c.LoopStep())).without(collected)
	if t.reads.forget(collected) || taken {
		t.reads.AddValue(made)
	}
	return t.within(map[string]Provenance{c.AccuVar(): made}).expression(c.Result())
}

// without returns s without the value of a variable, and whether parts of that are in it.
func (s Provenance) without(name string) (rest Provenance, parts bool) {
	rest = Provenance{record: s.record, fields: s.fields}
	for _, o := range s.origins {
		if o.name != name {
			rest.origins = append(rest.origins, o)
		} else if len(o.path) > 0 {
			parts = true
		}
	}
	return rest, parts
}

// forget removes a variable, and reports whether anything of it is read.
func (r *Reads) forget(name string) bool {
	_, read := r.read[name]
	_, present := r.present[name]
	delete(r.names, name)
	delete(r.read, name)
	delete(r.whole, name)
	delete(r.present, name)
	return read || present
}

func (t *tracing) within(names map[string]Provenance) *tracing {
	scope := make(map[string]Provenance, len(t.scope)+len(names))
	maps.Copy(scope, t.scope)
	maps.Copy(scope, names)
	return &tracing{reads: t.reads, scope: scope}
}

func textOf(e celast.Expr) (string, bool) {
	s, ok := e.AsLiteral().(types.String)
	return string(s), ok
}

func isNull(e celast.Expr) bool { return e.AsLiteral() == types.NullValue }

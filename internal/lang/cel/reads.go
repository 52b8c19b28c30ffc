package cel

import (
	"maps"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"

	usher "github.com/usher-dev/usher"
)

// Reads are what expressions read. The zero Reads are empty; Paths do not change after the last Add.
type Reads struct {
	// names are the variables that occur.
	names map[string]bool
	// whole are the paths whose values are read with everything below, by the name of the variable;
	// present are those of which an expression asks whether there is a value, or null.
	whole, present map[string][][]string
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
		if r.whole == nil {
			r.whole = map[string][][]string{}
		}
		r.whole[o.name] = appendPath(r.whole[o.name], o.path)
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

// nowhere is a key that objects do not have. A path to it decodes an object without its fields.
const nowhere = "\x00"

// Paths returns the paths below a variable that are read.
func (r *Reads) Paths(name string) *usher.Paths {
	paths := &usher.Paths{}
	for _, path := range r.whole[name] {
		paths.Add(path...)
	}
	for _, path := range r.present[name] {
		paths.Add(append(slices.Clone(path), nowhere)...)
	}
	return paths
}

// Whole returns the paths below a variable whose values are read with everything below. They are
// shared: do not change them.
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
	case celast.ListKind, celast.MapKind, celast.StructKind, celast.LiteralKind, celast.UnspecifiedExprKind:
		t.consume(Parts(e)...)
	}
	return Provenance{}
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
	t.consume(c.IterRange(), c.AccuInit())
	names := map[string]Provenance{c.AccuVar(): {}, c.IterVar(): {}}
	if c.HasIterVar2() {
		names[c.IterVar2()] = Provenance{}
	}
	t.within(names).consume(c.LoopCondition(), c.LoopStep())
	t.within(map[string]Provenance{c.AccuVar(): {}}).consume(c.Result())
	return Provenance{}
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

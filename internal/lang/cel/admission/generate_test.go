package admission_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
)

// A chooser makes the choices of which an expression is the result.
type chooser interface {
	// IntN returns a number from 0 to n-1.
	IntN(n int) int
}

// chosen makes the choices that are written in bytes, and the first ones when they end.
type chosen struct{ bytes []byte }

func (c *chosen) IntN(n int) int {
	if len(c.bytes) == 0 {
		return 0
	}
	i := int(c.bytes[0])
	c.bytes = c.bytes[1:]
	if n > 256 && len(c.bytes) > 0 {
		i, c.bytes = i<<8|int(c.bytes[0]), c.bytes[1:]
	}
	return i % n
}

// A production is one way to make an expression of a type: an overload of a function, or a macro.
type production struct {
	id     string
	name   string
	member bool
	args   []*cel.Type
	result *cel.Type
	// macro writes the expression of a macro; it is nil for an overload.
	macro func(g *generator, b bindings, depth int) string
}

// A grammar is all productions of an environment.
type grammar struct {
	all []*production
	// byResult has the productions by the name of the type of their results.
	byResult map[string][]*production
}

// unwritable are functions that no expression can name.
var unwritable = []string{"__not_strictly_false__", operators.NotStrictlyFalse, "in", "_in_"}

// newGrammar reads the functions of an environment: one that a later version of Kubernetes adds
// is generated without a change here.
func newGrammar(env *cel.Env) *grammar {
	gr := &grammar{byResult: map[string][]*production{}}
	functions := env.Functions()
	for _, name := range slices.Sorted(maps.Keys(functions)) {
		if strings.Contains(strings.TrimPrefix(name, operators.In), "@") || slices.Contains(unwritable, name) {
			continue
		}
		for _, o := range functions[name].OverloadDecls() {
			gr.add(&production{id: o.ID(), name: name, member: o.IsMemberFunction(), args: o.ArgTypes(), result: o.ResultType()})
		}
	}
	for _, m := range macros() {
		gr.add(m)
	}
	return gr
}

func (gr *grammar) add(p *production) {
	gr.all = append(gr.all, p)
	head := headOf(p.result)
	gr.byResult[head] = append(gr.byResult[head], p)
}

func headOf(t *cel.Type) string {
	if t.Kind() == types.TypeParamKind || t.Kind() == types.DynKind || t.Kind() == types.AnyKind {
		return "*"
	}
	return t.TypeName()
}

// bindings are the types that type parameters have.
type bindings map[string]*cel.Type

// unify makes pattern the type wanted, and reports whether it can be.
func (b bindings) unify(pattern, wanted *cel.Type) bool {
	if pattern.Kind() == types.TypeParamKind {
		if bound, ok := b[pattern.TypeName()]; ok {
			return bound.IsExactType(wanted) || wanted.Kind() == types.DynKind
		}
		b[pattern.TypeName()] = wanted
		return true
	}
	if pattern.Kind() == types.DynKind || wanted.Kind() == types.DynKind {
		return true
	}
	if pattern.TypeName() != wanted.TypeName() || len(pattern.Parameters()) != len(wanted.Parameters()) {
		return false
	}
	for i, parameter := range pattern.Parameters() {
		if !b.unify(parameter, wanted.Parameters()[i]) {
			return false
		}
	}
	return true
}

// A local is a variable of a comprehension.
type local struct {
	name string
	t    *cel.Type
}

// A generator makes up expressions, most of them well-typed.
type generator struct {
	chooser

	grammar *grammar
	// family says of which objects most paths are.
	family string
	scope  []local
	locals int
	// mistakes is how many of a thousand expressions are of another type than they should be.
	mistakes int
	// rewrite, unless nil, may write a call as another one.
	rewrite func(p *production, args []string) (string, bool)
}

// expression returns an expression of some type.
func (g *generator) expression() string {
	g.forFamily()
	if g.IntN(8) == 0 {
		g.mistakes = 60
	}
	return g.write(g.typed(2), 3+g.IntN(2))
}

// forFamily chooses the family of the objects that an expression is for.
func (g *generator) forFamily() {
	g.family, g.scope, g.locals, g.mistakes = []string{"widget", "pod"}[g.IntN(2)], nil, 0, 0
}

// from returns an expression whose outermost call is of a production.
func (g *generator) from(p *production, depth int) string {
	g.forFamily()
	return g.produce(p, bindings{}, depth)
}

var simpleTypes = []*cel.Type{
	cel.StringType, cel.BoolType, cel.IntType, cel.DoubleType, cel.DynType, cel.StringType, cel.IntType, cel.UintType, cel.BytesType, cel.TimestampType, cel.DurationType, cel.NullType,
}

// typed chooses a type.
func (g *generator) typed(depth int) *cel.Type {
	n := g.IntN(20)
	if depth <= 0 || n < 10 {
		return simpleTypes[g.IntN(len(simpleTypes))]
	}
	switch {
	case n < 13:
		return cel.BoolType
	case n < 16:
		return cel.ListType(g.typed(depth - 1))
	case n < 18:
		return cel.MapType(cel.StringType, g.typed(depth-1))
	case n < 19:
		return cel.OptionalType(g.typed(depth - 1))
	}
	opaque := slices.Sorted(maps.Keys(opaques))
	return cel.ObjectType(opaque[g.IntN(len(opaque))])
}

func (g *generator) pick(texts []string) string { return texts[g.IntN(len(texts))] }

// write returns an expression of a type.
func (g *generator) write(t *cel.Type, depth int) string {
	if g.mistakes > 0 && g.IntN(1000) < g.mistakes {
		t = g.typed(1)
	}
	if depth <= 0 || g.IntN(4) == 0 {
		return g.leaf(t, depth)
	}
	if t.Kind() == types.DynKind {
		t = g.typed(1)
		if t.Kind() == types.DynKind {
			return g.leaf(t, depth)
		}
		if g.IntN(3) == 0 {
			return "dyn(" + g.write(t, depth-1) + ")"
		}
	}
	candidates := g.grammar.byResult[headOf(t)]
	if g.IntN(5) == 0 || len(candidates) == 0 {
		candidates = g.grammar.byResult["*"]
	}
	for range 8 {
		p := candidates[g.IntN(len(candidates))]
		b := bindings{}
		if b.unify(p.result, t) {
			return g.produce(p, b, depth)
		}
	}
	return g.leaf(t, depth)
}

// resolve replaces the type parameters of a type; those that nothing says are chosen.
func (g *generator) resolve(t *cel.Type, b bindings) *cel.Type {
	switch t.Kind() {
	case types.TypeParamKind:
		bound, ok := b[t.TypeName()]
		if !ok {
			bound = simpleTypes[g.IntN(7)]
			b[t.TypeName()] = bound
		}
		return bound
	case types.ListKind:
		return cel.ListType(g.resolve(t.Parameters()[0], b))
	case types.MapKind:
		return cel.MapType(g.resolve(t.Parameters()[0], b), g.resolve(t.Parameters()[1], b))
	case types.OpaqueKind:
		if t.TypeName() == "optional_type" {
			return cel.OptionalType(g.resolve(t.Parameters()[0], b))
		}
	}
	return t
}

func (g *generator) produce(p *production, b bindings, depth int) string {
	if p.macro != nil {
		return p.macro(g, b, depth)
	}
	args := make([]string, len(p.args))
	for i, t := range p.args {
		args[i] = g.argument(p, i, g.resolve(t, b), depth-1)
	}
	if g.rewrite != nil {
		if text, ok := g.rewrite(p, args); ok {
			return text
		}
	}
	return call(p, args)
}

// argument is that of a function. Many functions take only texts of a certain form.
func (g *generator) argument(p *production, i int, t *cel.Type, depth int) string {
	if p.name == operators.OptSelect && i == 1 {
		return g.pick(fields)
	}
	if pool, ok := pools[poolKey{p.name, i}]; ok && (t.Kind() == types.StringKind || t.Kind() == types.DynKind) && g.IntN(10) < 8 {
		return strconv.Quote(g.pick(pool))
	}
	if p.name == "lists.range" || p.name == "flatten" && i == 1 {
		return strconv.Itoa(g.IntN(6) - 1)
	}
	if i > 0 && t.Kind() == types.IntKind && p.member && g.IntN(10) < 6 {
		return strconv.Itoa(g.IntN(4))
	}
	if p.id == "index_map" && i == 1 && t.Kind() == types.StringKind && g.IntN(10) < 8 {
		return strconv.Quote(g.pick(keys))
	}
	return g.write(t, depth)
}

// call writes a call as it is written in CEL.
func call(p *production, args []string) string {
	switch p.name {
	case operators.Conditional:
		return fmt.Sprintf("(%s ? %s : %s)", args[0], args[1], args[2])
	case operators.Index:
		return args[0] + "[" + args[1] + "]"
	case operators.OptIndex:
		return args[0] + "[?" + args[1] + "]"
	case operators.OptSelect:
		return args[0] + ".?" + args[1]
	case operators.LogicalNot:
		return "(!" + args[0] + ")"
	case operators.Negate:
		return "(-" + args[0] + ")"
	}
	if operator, ok := operators.FindReverseBinaryOperator(p.name); ok {
		return "(" + args[0] + " " + operator + " " + args[1] + ")"
	}
	if p.member {
		return args[0] + "." + p.name + "(" + strings.Join(args[1:], ", ") + ")"
	}
	return p.name + "(" + strings.Join(args, ", ") + ")"
}

// leaf is an expression without calls, as far as there is one.
func (g *generator) leaf(t *cel.Type, depth int) string {
	if len(g.scope) > 0 && g.IntN(2) == 0 {
		for range 3 {
			if l := g.scope[g.IntN(len(g.scope))]; l.t.IsExactType(t) || l.t.Kind() == types.DynKind || t.Kind() == types.DynKind {
				return l.name
			}
		}
	}
	if g.IntN(3) > 0 {
		if path := g.path(t); path != "" {
			return path
		}
	}
	return g.literal(t, depth)
}

// path reads an object, or something else that is given.
func (g *generator) path(t *cel.Type) string {
	family := g.family
	if g.IntN(12) == 0 {
		family = "request"
	}
	name := t.TypeName()
	if t.Kind() == types.DynKind {
		kinds := []string{"string", "int", "bool", "double", "list", "map", "null_type"}
		name = kinds[g.IntN(len(kinds))]
	}
	candidates := paths[family][name]
	if family != "request" && g.IntN(6) == 0 {
		candidates = slices.Concat(candidates, paths["request"][name])
	}
	if len(candidates) == 0 {
		return ""
	}
	path := g.pick(candidates)
	switch g.IntN(60) {
	case 59:
		return strings.Replace(path, "object.", "params.", 1)
	case 58, 57:
		return strings.Replace(path, "object.", "oldObject.", 1)
	}
	return path
}

func (g *generator) literal(t *cel.Type, depth int) string {
	switch t.Kind() {
	case types.StringKind:
		return strconv.Quote(g.pick(texts))
	case types.IntKind:
		return g.pick([]string{"0", "1", "2", "3", "5", "(-1)", "7", "100", "9223372036854775807", "(-9223372036854775808)", "63"})
	case types.UintKind:
		return g.pick([]string{"0u", "1u", "7u", "18446744073709551615u"})
	case types.DoubleKind:
		return g.pick([]string{"0.0", "1.0", "0.5", "(-2.25)", "1e300", "3.0", "9223372036854775808.0"})
	case types.BoolKind:
		return g.pick([]string{"true", "false"})
	case types.BytesKind:
		return g.pick([]string{`b"ab"`, `b""`, `b"\xff\x00"`})
	case types.NullTypeKind:
		return "null"
	case types.TimestampKind:
		return g.pick([]string{`timestamp("2024-02-29T12:34:56.789Z")`, `timestamp("1970-01-01T00:00:00Z")`, `timestamp("9999-12-31T23:59:59Z")`, `timestamp(1700000000)`})
	case types.DurationKind:
		return g.pick([]string{`duration("1h30m")`, `duration("-5s")`, `duration("0")`, `duration("2540400h")`, `duration("1ns")`})
	case types.DynKind:
		return g.literal(simpleTypes[g.IntN(4)], depth)
	case types.TypeKind:
		return g.pick([]string{"int", "string", "type(object)", "type(null)"})
	case types.ListKind:
		return g.list(t.Parameters()[0], depth)
	case types.MapKind:
		return g.mapping(t.Parameters()[0], t.Parameters()[1], depth)
	}
	if t.TypeName() == "optional_type" {
		if g.IntN(4) == 0 {
			return "optional.none()"
		}
		return "optional.of(" + g.leaf(t.Parameters()[0], depth-1) + ")"
	}
	if known := opaques[t.TypeName()]; len(known) > 0 {
		return g.pick(known)
	}
	return "null"
}

func (g *generator) list(element *cel.Type, depth int) string {
	parts := make([]string, g.IntN(4))
	for i := range parts {
		parts[i] = g.leaf(element, depth-1)
		if g.IntN(12) == 0 {
			parts[i] = "?" + g.leaf(cel.OptionalType(element), depth-1)
		}
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

func (g *generator) mapping(key, value *cel.Type, depth int) string {
	if key.Kind() == types.DynKind || key.Kind() == types.TypeParamKind {
		key = cel.StringType
	}
	// More would give a different order with each iteration.
	parts := make([]string, g.IntN(3))
	for i := range parts {
		if g.IntN(12) == 0 {
			parts[i] = "?" + g.literal(key, 0) + ": " + g.leaf(cel.OptionalType(value), depth-1)
			continue
		}
		parts[i] = g.literal(key, 0) + ": " + g.leaf(value, depth-1)
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// seeded is a generator with choices of its own.
func seeded(gr *grammar, seed uint64) *generator {
	return &generator{chooser: rand.New(rand.NewPCG(seed, 18)), grammar: gr}
}

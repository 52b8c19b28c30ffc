// Package hostile makes hostile programs: CEL expressions that call each function of an environment with
// arguments that are chosen to take as much time and memory as they can.
package hostile

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/decls"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
)

// A Generator makes programs. The same seed gives the same programs. It is not safe for concurrent use.
type Generator struct {
	random *rand.Rand
	// forms are all calls and macros, byResult those with a result of a kind.
	forms    []Form
	byResult map[string][]Form
	next     int
}

// A Form is a call, or a macro, without its arguments.
type Form struct {
	// name is that of the function, and text has a %s for each argument.
	name, text string
	arguments  []string
	result     string
}

// An Expression is an expression of any type.
type Expression struct {
	// Function is the function, or the macro, about which it is.
	Function string
	root     *node
}

// A node is a part of a program.
type node struct {
	text      string
	arguments []*node
	kind      string
}

// Types of which there are values; all others are known by their names.
const (
	anyKind      = "any"
	listKind     = "list"
	mapKind      = "map"
	optionalKind = "optional_type"
)

// New returns a generator of programs that call functions.
func New(functions map[string]*decls.FunctionDecl, seed uint64) *Generator {
	g := &Generator{random: rand.New(rand.NewPCG(seed, 0)), forms: Forms(functions), byResult: map[string][]Form{}}
	g.random.Shuffle(len(g.forms), func(i, j int) { g.forms[i], g.forms[j] = g.forms[j], g.forms[i] })
	for _, f := range g.forms {
		if f.name != "dyn" {
			g.byResult[f.result] = append(g.byResult[f.result], f)
		}
	}
	return g
}

// Forms returns the forms of the overloads of functions, and of macros.
func Forms(functions map[string]*decls.FunctionDecl) []Form {
	var forms []Form
	for _, name := range slices.Sorted(maps.Keys(functions)) {
		overloads := functions[name].OverloadDecls()
		slices.SortFunc(overloads, func(a, b *decls.OverloadDecl) int { return strings.Compare(a.ID(), b.ID()) })
		for _, o := range overloads {
			if f, ok := formOf(name, o); ok {
				forms = append(forms, f)
			}
		}
	}
	return append(forms, macros()...)
}

// Arguments returns the kinds of the arguments: see [Values].
func (f *Form) Arguments() []string { return f.arguments }

// With returns the form with arguments.
func (f *Form) With(arguments ...string) string {
	n := &node{text: f.text}
	for i := range f.arguments {
		n.arguments = append(n.arguments, &node{text: arguments[i]})
	}
	return n.String()
}

func (f *Form) String() string { return f.With(f.arguments...) }

// Functions returns how many overloads and macros there are: so many programs call each once.
func (g *Generator) Functions() int { return len(g.forms) }

// Next returns the next program.
func (g *Generator) Next() Expression {
	f := g.forms[g.next%len(g.forms)]
	depth := g.random.IntN(3)
	g.next++
	n := g.call(f, depth)
	switch g.random.IntN(6) {
	case 0:
		n = &node{"lists.range(1000).map(i, %s)", []*node{n}, listKind}
	case 1:
		n = &node{"[%s]" + strings.Repeat(".map(a, [a, a])", 30), []*node{n}, listKind}
	case 2:
		n = &node{"lists.range(100).all(i, dyn(%s) == dyn(%s))", []*node{n, n}, "bool"}
	}
	return Expression{f.name, n}
}

func (g *Generator) call(f Form, depth int) *node {
	n := &node{text: f.text, kind: f.result}
	for _, kind := range f.arguments {
		n.arguments = append(n.arguments, g.value(kind, depth))
	}
	return n
}

// value returns a value of a kind: one of those that are hostile, or that of a call.
func (g *Generator) value(kind string, depth int) *node {
	if kind == anyKind {
		all := anyOf()
		return &node{"dyn(%s)", []*node{g.value(all[g.random.IntN(len(all))], depth)}, kind}
	}
	if forms := g.byResult[kind]; depth > 0 && len(forms) > 0 && g.random.IntN(3) > 0 {
		return g.call(forms[g.random.IntN(len(forms))], depth-1)
	}
	texts := values()[kind]
	if len(texts) == 0 {
		return &node{text: "null", kind: kind}
	}
	text := texts[g.random.IntN(len(texts))]
	n := &node{text: text, kind: kind}
	for range strings.Count(text, "%s") {
		if kind == "string" {
			// It is a format.
			break
		}
		n.arguments = append(n.arguments, g.value("string", 0))
	}
	return n
}

// Values returns the values of each kind of which there are hostile ones, for a text in each.
func Values(kind string) []string {
	var all []string
	if kind == anyKind {
		for _, k := range anyOf() {
			all = append(all, Values(k)...)
		}
	}
	for _, text := range values()[kind] {
		if kind == "string" || !strings.Contains(text, "%s") {
			all = append(all, text)
			continue
		}
		for _, inner := range values()["string"] {
			all = append(all, strings.ReplaceAll(text, "%s", inner))
		}
	}
	return all
}

// anyOf are the kinds of values for arguments of any kind.
func anyOf() []string {
	return []string{"string", "int", "double", listKind, listKind, mapKind, optionalKind, "bytes", "null_type", "timestamp"}
}

// Text returns the expression.
func (p *Expression) Text() string { return p.root.String() }

func (n *node) String() string {
	var b strings.Builder
	rest := n.text
	for _, a := range n.arguments {
		before, after, _ := strings.Cut(rest, "%s")
		b.WriteString(before)
		b.WriteString(a.String())
		rest = after
	}
	b.WriteString(rest)
	return b.String()
}

// Minimal returns the smallest program, made by replacing parts with plain values, of which still says
// that it is so.
func (p *Expression) Minimal(still func(p Expression) bool) Expression {
	least := *p
	for again := true; again; {
		again = false
		for _, place := range least.root.places(nil) {
			smaller := Expression{p.Function, least.root.with(place)}
			if smaller.Text() != least.Text() && still(smaller) {
				least, again = smaller, true
				break
			}
		}
	}
	return least
}

// places are those of the parts of a node, from large to small.
func (n *node) places(at []int) [][]int {
	var all [][]int
	for i, a := range n.arguments {
		place := append(slices.Clip(at), i)
		all = append(append(all, place), a.places(place)...)
	}
	return all
}

// with returns n with a plain value at a place.
func (n *node) with(place []int) *node {
	if len(place) == 0 {
		if plain, ok := plain[n.kind]; ok {
			return &node{text: plain, kind: n.kind}
		}
		return n
	}
	changed := &node{n.text, slices.Clone(n.arguments), n.kind}
	changed.arguments[place[0]] = n.arguments[place[0]].with(place[1:])
	return changed
}

// plain are values that take nothing.
var plain = map[string]string{
	anyKind: "dyn(1)", "string": "'a'", "bytes": "b'a'", "int": "1", "uint": "1u", "double": "1.0", "bool": "true", listKind: "[1]", mapKind: "{'a': 1}", optionalKind: "optional.of(1)",
	"timestamp": "timestamp('2024-01-01T00:00:00Z')", "duration": "duration('1s')",
}

// formOf is the Form of a call; false for those that only the compiler makes.
func formOf(name string, o *decls.OverloadDecl) (Form, bool) {
	f := Form{name: name, result: kindOf(o.ResultType())}
	for _, t := range o.ArgTypes() {
		f.arguments = append(f.arguments, kindOf(t))
	}
	n := len(f.arguments)
	display, binary := operators.FindReverseBinaryOperator(name)
	switch {
	case name == operators.Index:
		f.text = "%s[%s]"
	case name == operators.OptIndex:
		f.text = "%s[?%s]"
	case name == operators.Conditional:
		f.text = "(%s ? %s : %s)"
	case name == operators.LogicalNot:
		f.text = "!%s"
	case name == operators.Negate:
		f.text = "-(%s)"
	case binary && display != "" && n == 2:
		f.text = "(%s " + display + " %s)"
	case strings.ContainsAny(name, "@_?"):
		return Form{}, false
	case o.IsMemberFunction():
		f.text = "%s." + name + "(" + strings.TrimSuffix(strings.Repeat("%s, ", n-1), ", ") + ")"
	default:
		f.text = name + "(" + strings.TrimSuffix(strings.Repeat("%s, ", n), ", ") + ")"
	}
	return f, true
}

func kindOf(t *cel.Type) string {
	switch t.Kind() { //nolint:exhaustive // the others are known by their names
	case types.ListKind:
		if p := t.Parameters(); len(p) == 1 && p[0].Kind() != types.TypeParamKind && p[0].Kind() != types.DynKind {
			return fmt.Sprintf("list(%s)", kindOf(p[0]))
		}
		return listKind
	case types.MapKind:
		return mapKind
	case types.DynKind, types.TypeParamKind, types.AnyKind:
		return anyKind
	case types.TypeKind:
		return "type"
	case types.TimestampKind:
		return "timestamp"
	case types.DurationKind:
		return "duration"
	}
	return t.TypeName()
}

package closure

import (
	"fmt"
	"slices"
	"strings"

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/literal"
	"cuelang.org/go/cue/token"

	"github.com/usher-dev/usher/internal/lang/cue/internal/syntax"
)

// A Program is a source as closures over the decoded object. It is safe for concurrent use.
type Program struct {
	plan   *plan
	output int
	// brief says that a run takes some microseconds, but for what it takes steps for.
	brief bool
}

// An Obstacle is the reason why a source cannot be translated.
type Obstacle struct {
	Node ast.Node
	What string
}

// Translate returns file as closures that compute the value of output, or the first obstacle. The
// source has the parameters params.
func Translate(file *ast.File, params []string, output string) (*Program, *Obstacle) {
	t := &translator{params: params, mentioned: scopes{}, shapes: syntax.Shapes{}}
	ast.Walk(file, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && id.Node != nil {
			t.mentioned[id.Scope] = true
		}
		return true
	}, nil)
	p, at := t.lazy(file, nil)
	slot, ok := at[output]
	if t.obstacle == nil && !ok {
		t.cannot(file, "it does not define %s", output)
	}
	if t.obstacle != nil {
		return nil, t.obstacle
	}
	return &Program{plan: p, output: slot, brief: !t.long && t.expressions <= briefExpressions}, nil
}

// A translator translates expressions to codes.
type translator struct {
	obstacles

	params []string
	// mentioned are the scopes whose names are referenced.
	mentioned scopes
	shapes    syntax.Shapes
	depth     int
	// expressions counts them, and long says that one of them may take a while without steps.
	expressions int
	long        bool
	// conditions is the number of conditions and loop sources around the current expression.
	conditions int
}

// Obstacles keep the first obstacle of a translation.
type obstacles struct{ obstacle *Obstacle }

// cannot records why the source cannot be translated, and returns a code that stands in.
func (o *obstacles) cannot(node ast.Node, format string, args ...any) code {
	if o.obstacle == nil {
		o.obstacle = &Obstacle{node, fmt.Sprintf(format, args...)}
	}
	return unclearCode
}

func unclearCode(*machine, *frame) (any, status) { return nil, unclear }

// An env is where names are looked up while a source is translated: it corresponds to a frame.
type env struct {
	outer *env
	// names are the slots of names by the scope that declares them.
	names map[ast.Node]map[string]int
	lets  map[ast.Node]int
}

func (e *env) add(scope ast.Node, name string, slot int) {
	if e.names[scope] == nil {
		e.names[scope] = map[string]int{}
	}
	e.names[scope][name] = slot
}

// find returns how many frames out an identifier's value is, and in which slot.
func (e *env) find(id *ast.Ident) (hops, slot int, ok bool) {
	for ; e != nil; e = e.outer {
		if slot, ok := e.lets[id.Node]; ok {
			return hops, slot, true
		}
		if names, ok := e.names[id.Scope]; ok {
			slot, ok := names[id.Name]
			return hops, slot, ok
		}
		hops++
	}
	return 0, 0, false
}

// A lazyStruct is the translation of a file or struct literal whose fields refer to each
// other: each field is evaluated when it is first needed.
type lazyStruct struct {
	t    *translator
	env  *env
	plan *plan
	// slots are those of the fields; the others are what is in each slot.
	slots      map[string]int
	declared   map[int][]declaration
	lets       map[int]ast.Expr
	conditions map[int]condition
	isFile     bool
}

// A declaration gives a field a value if the conditions in these slots hold.
type declaration struct {
	value      ast.Expr
	conditions []int
}

// A condition is evaluated only if those before it hold.
type condition struct {
	test   ast.Expr
	before []int
}

// lazy translates a file or struct literal with names that refer to each other, and
// returns the slots of the fields.
func (t *translator) lazy(node ast.Node, outer *env) (*plan, map[string]int) {
	s := &lazyStruct{
		t: t, plan: &plan{}, slots: map[string]int{}, declared: map[int][]declaration{},
		lets: map[int]ast.Expr{}, conditions: map[int]condition{},
		env: &env{outer: outer, names: map[ast.Node]map[string]int{}, lets: map[ast.Node]int{}},
	}
	_, s.isFile = node.(*ast.File)
	s.env.names[node] = map[string]int{}
	s.collect(node, syntax.Decls(node), nil)
	for i := range s.plan.codes {
		s.plan.codes[i] = s.code(i)
	}
	return s.plan, s.slots
}

func (s *lazyStruct) slot(name string) int {
	s.plan.codes = append(s.plan.codes, nil)
	s.plan.names = append(s.plan.names, name)
	return len(s.plan.codes) - 1
}

// collect gives every name that declarations of a scope make a slot.
func (s *lazyStruct) collect(scope ast.Node, decls []ast.Decl, conditions []int) {
	for _, decl := range decls {
		switch d := decl.(type) {
		case *ast.Field:
			name, ok := s.t.fieldName(d)
			if !ok {
				return
			}
			i, ok := s.slots[name]
			if !ok {
				i = s.slot(name)
				s.slots[name] = i
				s.plan.fields = append(s.plan.fields, i)
			}
			s.env.add(scope, name, i)
			s.declared[i] = append(s.declared[i], declaration{d.Value, conditions})
		case *ast.LetClause:
			i := s.slot("")
			s.env.lets[d] = i
			s.lets[i] = d.Expr
		case *ast.Comprehension:
			s.conditional(d, conditions)
		case *ast.ImportDecl, *ast.Package, *ast.CommentGroup, *ast.Attribute:
		default:
			s.t.cannot(decl, "it embeds a value in a struct whose fields are mentioned")
		}
	}
}

// conditional collects the fields under if clauses.
func (s *lazyStruct) conditional(c *ast.Comprehension, conditions []int) {
	body, ok := c.Value.(*ast.StructLit)
	if !ok || c.Fallback != nil {
		s.t.cannot(c, "it has an else clause")
		return
	}
	for _, clause := range c.Clauses {
		switch clause := clause.(type) {
		case *ast.IfClause:
			i := s.slot("")
			s.conditions[i] = condition{clause.Condition, conditions}
			s.plan.conditions = append(s.plan.conditions, i)
			conditions = append(slices.Clip(conditions), i)
		case *ast.LetClause:
			i := s.slot("")
			s.env.add(clause, clause.Ident.Name, i)
			s.lets[i] = clause.Expr
		default:
			s.t.cannot(clause, "a loop makes fields of a struct whose fields are mentioned")
			return
		}
	}
	s.env.names[body] = map[string]int{}
	s.collect(body, body.Elts, conditions)
}

func (s *lazyStruct) code(i int) code {
	if x, ok := s.lets[i]; ok {
		return s.t.expr(x, s.env)
	}
	if c, ok := s.conditions[i]; ok {
		return s.condition(c)
	}
	name, declared := s.plan.names[i], s.declared[i]
	if s.isFile && slices.Contains(s.t.params, name) {
		return s.param(name, declared)
	}
	values := make([]code, len(declared))
	for j, d := range declared {
		values[j] = s.t.expr(d.value, s.env)
	}
	if len(declared) == 1 && len(declared[0].conditions) == 0 {
		return values[0]
	}
	return func(m *machine, f *frame) (any, status) {
		var value any
		result := absent
		for j := range declared {
			holds, ok := f.hold(m, declared[j].conditions)
			if !ok {
				return nil, unclear
			}
			if !holds {
				continue
			}
			v, s := values[j](m, f)
			switch {
			case result == absent && s != absent:
				value, result = v, s
			case s != known || result != known || !m.sameScalar(value, v):
				return nil, unclear
			}
			if s == absent {
				return nil, unclear
			}
		}
		if result == absent {
			value = inactive{}
		}
		return value, result
	}
}

// inactive is the value of a field that is absent because no condition that it is under
// holds.
type inactive struct{}

// hold reports whether all of these conditions hold; it is not ok where that is unclear.
func (f *frame) hold(m *machine, conditions []int) (holds, ok bool) {
	for _, i := range conditions {
		v, s := f.get(m, i)
		holds, isBool := v.(bool)
		if !isBool || s != known {
			return false, false
		}
		if !holds {
			return false, true
		}
	}
	return true, true
}

// condition returns a code for a condition that is evaluated only if those before it hold.
func (s *lazyStruct) condition(c condition) code {
	test := s.t.condition(c.test, s.env)
	return func(m *machine, f *frame) (any, status) {
		holds, ok := f.hold(m, c.before)
		if !ok {
			return nil, unclear
		}
		if !holds {
			return false, known
		}
		v, s := test(m, f)
		if _, isBool := v.(bool); !isBool || s > choice {
			return nil, unclear
		}
		return v, known
	}
}

// param returns a code for a parameter, which may only be declared.
func (s *lazyStruct) param(name string, declared []declaration) code {
	for _, d := range declared {
		top, ok := d.value.(*ast.Ident)
		if !ok || top.Name != "_" || len(d.conditions) > 0 {
			return s.t.cannot(d.value, "it constrains %s", name)
		}
	}
	return func(m *machine, _ *frame) (any, status) {
		v, ok := m.params.Get(name)
		if !ok {
			return open{}, known
		}
		return v, known
	}
}

// sameScalar reports whether both values are the same one, which is no struct or list.
func (m *machine) sameScalar(x, y any) bool {
	switch x := x.(type) {
	case nil:
		return y == nil
	case bool, string, int64:
		return m.reads(x) && x == y
	}
	return false
}

// fieldName returns the name of a plain field.
func (o *obstacles) fieldName(d *ast.Field) (string, bool) {
	name, ok := syntax.StaticLabel(d.Label)
	lit, quoted := d.Label.(*ast.BasicLit)
	_, aliased := d.Label.(*ast.Alias)
	switch {
	case d.Alias != nil, aliased:
		o.cannot(d, "it gives a field an alias")
	case !ok:
		o.cannot(d, "it computes the name of a field of a struct whose fields are mentioned")
	case d.Constraint != token.ILLEGAL || d.Value == nil:
		o.cannot(d, "it has an optional or required field")
	case strings.HasPrefix(name, "#") || strings.HasPrefix(name, "_#"):
		o.cannot(d, "it has a definition")
	case quoted && strings.HasPrefix(name, "_"), quoted && !strings.HasPrefix(lit.Value, `"`), name == "_":
		o.cannot(d, "it has an unusual field name")
	default:
		return name, true
	}
	return "", false
}

// ident translates a mention of a name.
func (o *obstacles) ident(id *ast.Ident, in *env) code {
	if id.Node == nil {
		return o.cannot(id, "it uses the type or function %s", id.Name)
	}
	hops, slot, ok := in.find(id)
	if !ok {
		return o.cannot(id, "it refers to %s by an alias", id.Name)
	}
	switch hops {
	case 0:
		return func(m *machine, f *frame) (any, status) { return f.get(m, slot) }
	case 1:
		return func(m *machine, f *frame) (any, status) { return f.outer.get(m, slot) }
	}
	return func(m *machine, f *frame) (any, status) {
		for range hops {
			f = f.outer
		}
		return f.get(m, slot)
	}
}

// literalCode translates a literal.
func (o *obstacles) literalCode(x *ast.BasicLit) code {
	var value any
	switch x.Kind {
	case token.NULL:
	case token.TRUE, token.FALSE:
		value = x.Kind == token.TRUE
	case token.STRING:
		text, err := literal.Unquote(x.Value)
		if err != nil || strings.HasPrefix(strings.TrimLeft(x.Value, "#"), "'") {
			return o.cannot(x, "it has bytes")
		}
		value = text
	case token.INT, token.FLOAT:
		n, ok := numberIn(x.Value)
		if !ok {
			return o.cannot(x, "it has a very long number")
		}
		value = n
	default:
		return o.cannot(x, "it has a literal %s", x.Value)
	}
	return func(*machine, *frame) (any, status) { return value, known }
}

package closure

import (
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/containers"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"

	"github.com/usher-dev/usher/internal/lang/cel/meter"
)

// A Compiler makes programs in an environment. It is immutable.
type Compiler struct {
	Dispatcher interpreter.Dispatcher
	Adapter    types.Adapter
	Provider   types.Provider
	Container  *containers.Container
	// Regexes are the functions whose constant regular expressions are compiled once.
	Regexes []*interpreter.RegexOptimization
	// Bounds returns what bounds the calls of a function; nil for a function that cannot be called.
	Bounds func(function string) meter.Bound
}

// Compile returns a program for an expression that cel-go has planned, and false for one that only
// cel-go can evaluate. Folded are the parts that cel-go evaluated when it planned them, and those
// without variables that it evaluates differently than by calling their function.
func (c *Compiler) Compile(expression *ast.AST, folded map[int64]interpreter.Interpretable) (*Program, bool) {
	p := &plan{Compiler: c, folded: folded, references: expression.ReferenceMap(), types: expression.TypeMap()}
	root := p.node(expression.Expr())
	if p.failed {
		return nil, false
	}
	return &Program{root: root, adapter: c.Adapter, slots: p.slots, nanos: p.nanos}, true
}

// A plan makes the nodes of one program.
type plan struct {
	*Compiler

	folded     map[int64]interpreter.Interpretable
	references references
	types      map[int64]*types.Type
	scope      *scope
	slots      int
	// nanos is what the nodes so far take that the innermost loop evaluates at most once.
	nanos int64
	// failed says that there is a part that only cel-go can evaluate.
	failed bool
}

// References are what the names in an expression refer to.
type references map[int64]*ast.ReferenceInfo

// A scope is what the variables of a loop are.
type scope struct {
	outer *scope
	// accumulated and the names of the variables; empty ones are none.
	accumulated, first, second string
	firstSlot                  int
	secondSlot                 int
	inResult                   bool
	// accumulator is nil if the loop does not read it.
	accumulator *accumulator
}

// nodeNanos is at least what a node takes, besides what it spends itself.
const nodeNanos = 20

// fail ends the plan: the program cannot be made. The node only has to be one.
func (p *plan) fail() *chain {
	p.failed = true
	return &chain{base: slot(0)}
}

func (p *plan) node(e ast.Expr) node {
	p.nanos += nodeNanos
	if value, known := p.constant(e); known {
		return value
	}
	switch e.Kind() {
	case ast.IdentKind:
		return p.variable(e.ID())
	case ast.SelectKind:
		return p.selection(e)
	case ast.CallKind:
		return p.call(e)
	case ast.ListKind:
		return p.list(e.AsList())
	case ast.MapKind:
		return p.dictionary(e.AsMap())
	case ast.StructKind:
		return p.object(e.AsStruct())
	case ast.ComprehensionKind:
		return p.loop(e.AsComprehension())
	case ast.LiteralKind, ast.UnspecifiedExprKind:
	}
	return p.fail()
}

// constant returns the node of a part that cel-go has evaluated.
func (p *plan) constant(e ast.Expr) (node, bool) {
	if e.Kind() == ast.LiteralKind {
		return &constant{e.AsLiteral()}, true
	}
	switch i := p.folded[e.ID()].(type) {
	case nil:
		return nil, false
	case interpreter.InterpretableConst:
		return &constant{plain(i.Value())}, true
	default:
		return &leaf{i}, true
	}
}

// value returns the value of a part that is a constant.
func (p *plan) value(e ast.Expr) (ref.Val, bool) {
	if e.Kind() == ast.LiteralKind {
		return e.AsLiteral(), true
	}
	c, ok := p.folded[e.ID()].(interpreter.InterpretableConst)
	if !ok {
		return nil, false
	}
	return c.Value(), true
}

// variable returns the node of a name, or of a selection that is a name.
func (p *plan) variable(id int64) node {
	reference, found := p.references[id]
	if !found {
		return p.fail()
	}
	for s := p.scope; s != nil; s = s.outer {
		switch reference.Name {
		case s.accumulated:
			if s.accumulator == nil {
				return p.fail()
			}
			return &chain{base: s.accumulator}
		case s.first:
			if !s.inResult {
				return &chain{base: slot(s.firstSlot)}
			}
		case s.second:
			if !s.inResult && s.second != "" {
				return &chain{base: slot(s.secondSlot)}
			}
		}
	}
	if _, isType := p.Provider.FindIdent(reference.Name); isType {
		return p.fail()
	}
	return &chain{base: global(reference.Name)}
}

// attribute returns the node of an expression from which something is selected.
func (p *plan) attribute(e ast.Expr) attribute {
	switch n := p.node(e).(type) {
	case *presence:
		return p.fail()
	case attribute:
		return n
	case node:
		return &chain{base: n}
	}
	return p.fail()
}

func (p *plan) selection(e ast.Expr) node {
	if _, isName := p.references[e.ID()]; isName {
		return p.variable(e.ID())
	}
	s := e.AsSelect()
	added := step{name: s.FieldName(), key: types.String(s.FieldName()), test: s.IsTestOnly()}
	if of := p.types[s.Operand().ID()]; of != nil && of.Kind() == types.StructKind {
		t, found := p.Provider.FindStructFieldType(of.TypeName(), s.FieldName())
		if found && t.IsSet != nil && t.GetFrom != nil {
			added.kind, added.key = field, t
		}
	}
	a := p.attribute(s.Operand()).add(added)
	if s.IsTestOnly() {
		return &presence{a}
	}
	return a
}

// index returns the node of of[key], of[?key] or of.?key.
func (p *plan) index(of, key ast.Expr, optional bool) node {
	a := p.attribute(of)
	if value, ok := p.value(key); ok {
		switch v := value.(type) {
		case types.String:
			return a.add(step{kind: named, name: string(v), key: v, optional: optional})
		case types.Int, types.Uint, types.Bool, types.Double:
			return a.add(step{kind: fixed, key: v, optional: optional})
		}
		return p.fail()
	}
	return a.add(step{kind: computed, key: p.node(key), optional: optional})
}

func (p *plan) list(l ast.ListExpr) node {
	n := &list{elements: p.nodes(l.Elements())}
	for _, i := range l.OptionalIndices() {
		if n.optional == nil {
			n.optional = make([]bool, len(n.elements))
		}
		n.optional[i] = true
	}
	return n
}

func (p *plan) nodes(es []ast.Expr) []node {
	nodes := make([]node, len(es))
	for i, e := range es {
		nodes[i] = p.node(e)
	}
	return nodes
}

func (p *plan) dictionary(m ast.MapExpr) node {
	n := &dictionary{}
	for _, e := range m.Entries() {
		entry := e.AsMapEntry()
		n.keys, n.values = append(n.keys, p.node(entry.Key())), append(n.values, p.node(entry.Value()))
		n.optional = append(n.optional, entry.IsOptional())
	}
	return n
}

func (p *plan) object(s ast.StructExpr) node {
	n := &object{provider: p.Provider}
	for _, name := range p.Container.ResolveCandidateNames(s.TypeName()) {
		if _, found := p.Provider.FindStructType(name); found {
			n.of = name
			break
		}
	}
	for _, e := range s.Fields() {
		entry := e.AsStructField()
		n.fields, n.values = append(n.fields, entry.Name()), append(n.values, p.node(entry.Value()))
		n.optional = append(n.optional, entry.IsOptional())
	}
	return n
}

// plain is a constant as nodes work on it best. Lists of scalars are as those of decoded objects.
func plain(value ref.Val) any {
	if m, ok := value.(traits.Mapper); ok && m.Size() == types.IntZero {
		return map[string]any{}
	}
	l, ok := value.(traits.Lister)
	if !ok {
		return value
	}
	items := []any{}
	for it := l.Iterator(); it.HasNext() == types.True; {
		item := nativeOf(it.Next())
		if !isNative(item) {
			return value
		}
		items = append(items, item)
	}
	return items
}

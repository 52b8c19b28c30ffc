package cel

import (
	"maps"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common"
	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
)

// A Measure is an upper bound of the size of a value.
type Measure struct {
	// weight is at least the characters of texts and keys in it, and one for each value and each
	// element or key; count is the elements of a list, or the keys of a map.
	weight, count polynomial
	// fields are those of a value whose fields have measures of their own.
	fields map[string]Measure
}

// Input is the measure of what an expression reads.
func Input() Measure {
	return Measure{weight: variable(sizeVariable), count: variable(lengthVariable)}
}

// AtMost is the measure of a value of at most that size.
func AtMost(size float64) Measure { return Measure{weight: constant(size), count: constant(size)} }

// Fields is the measure of a value that has fields with measures of their own.
func Fields(fields map[string]Measure) Measure {
	m := Measure{weight: constant(1), count: constant(float64(len(fields))), fields: fields}
	for name, field := range fields {
		m.weight = m.weight.plus(field.weight).plus(constant(float64(2 + len(name))))
	}
	return m
}

// Add adds a field to a measure that [Fields] returned. Those of values that are the same have it, too.
func (m *Measure) Add(name string, field Measure) {
	if m.fields == nil {
		m.fields = map[string]Measure{}
	}
	m.fields[name] = field
	m.weight = m.weight.plus(field.weight).plus(constant(float64(2 + len(name))))
	m.count = constant(float64(len(m.fields)))
}

func scalar() Measure { return AtMost(1) }

func unbounded() Measure { return Measure{weight: infinite(), count: infinite()} }

func (m Measure) or(other Measure) Measure {
	return Measure{weight: m.weight.or(other.weight), count: m.count.or(other.count)}
}

func (m Measure) plus(other Measure) Measure {
	return Measure{weight: m.weight.plus(other.weight), count: m.count.plus(other.count)}
}

// BoundOf returns an upper bound of the cost of an expression, as programs of [PlanCounted] count
// it, and the measure of its value. Names have the measures of the variables.
//
// The elements of a list are parts of it, so that a loop in a loop over a part of the outer element
// grows with the whole, not with its square.
func BoundOf(ast *cel.Ast, names map[string]Measure) (Bound, Measure) {
	b := bounding{scope: names, next: firstLoopVariable}
	cost, value := b.expression(ast.NativeRep().Expr())
	return cost.bound(), value
}

// A bounding bounds one expression.
type bounding struct {
	scope map[string]Measure
	// next is the first variable of polynomials that no loop around uses.
	next int
}

// visitCost is at least what resolving a name or selecting a field costs.
const visitCost = 3

func (b *bounding) expression(e celast.Expr) (polynomial, Measure) {
	switch e.Kind() {
	case celast.LiteralKind:
		return nil, literal(e.AsLiteral().Value())
	case celast.IdentKind:
		return constant(visitCost), b.named(e.AsIdent())
	case celast.SelectKind:
		return b.selection(e.AsSelect())
	case celast.CallKind:
		return b.call(e.AsCall())
	case celast.ListKind:
		return b.list(e.AsList())
	case celast.MapKind:
		return b.mapping(e.AsMap())
	case celast.StructKind:
		return b.structure(e.AsStruct())
	case celast.ComprehensionKind:
		return b.loop(e.AsComprehension())
	case celast.UnspecifiedExprKind:
	}
	return infinite(), unbounded()
}

func literal(value any) Measure {
	switch v := value.(type) {
	case string:
		return AtMost(float64(1 + len(v)))
	case []byte:
		return AtMost(float64(1 + len(v)))
	}
	return scalar()
}

func (b *bounding) named(name string) Measure {
	if m, ok := b.scope[name]; ok {
		return m
	}
	// All else are the names of types.
	return scalar()
}

func (b *bounding) selection(s celast.SelectExpr) (polynomial, Measure) {
	cost, of := b.expression(s.Operand())
	cost = cost.plus(constant(visitCost))
	if s.IsTestOnly() {
		return cost, scalar()
	}
	return cost, of.field(s.FieldName())
}

// field is the measure of a part of a value.
func (m Measure) field(name string) Measure {
	if field, ok := m.fields[name]; ok {
		return field
	}
	return Measure{weight: m.weight, count: m.count}
}

func (b *bounding) call(c celast.CallExpr) (polynomial, Measure) {
	var cost polynomial
	var args []argument
	add := func(e celast.Expr) {
		own, m := b.expression(e)
		cost = cost.plus(own)
		args = append(args, argument{m, e})
	}
	if c.FunctionName() == operators.Conditional {
		return b.conditional(c.Args())
	}
	if c.IsMemberFunction() {
		add(c.Target())
	}
	for _, arg := range c.Args() {
		add(arg)
	}
	own, value := callBound(c.FunctionName(), args)
	return cost.plus(own), value
}

func (b *bounding) conditional(args []celast.Expr) (polynomial, Measure) {
	condition, _ := b.expression(args[0])
	then, thenValue := b.expression(args[1])
	otherwise, otherwiseValue := b.expression(args[2])
	return condition.plus(then.or(otherwise)).plus(constant(visitCost)), thenValue.or(otherwiseValue)
}

func (b *bounding) list(l celast.ListExpr) (polynomial, Measure) {
	cost, value := constant(common.ListCreateBaseCost), AtMost(1)
	value.count = constant(float64(l.Size()))
	for _, element := range l.Elements() {
		own, m := b.expression(element)
		cost, value.weight = cost.plus(own), value.weight.plus(m.weight).plus(constant(1))
	}
	return cost, value
}

func (b *bounding) mapping(m celast.MapExpr) (polynomial, Measure) {
	cost, value := constant(common.MapCreateBaseCost), AtMost(1)
	value.count = constant(float64(m.Size()))
	for _, entry := range m.Entries() {
		keyCost, key := b.expression(entry.AsMapEntry().Key())
		own, of := b.expression(entry.AsMapEntry().Value())
		cost, value.weight = cost.plus(keyCost).plus(own), value.weight.plus(key.weight).plus(of.weight).plus(constant(2))
	}
	return cost, value
}

func (b *bounding) structure(s celast.StructExpr) (polynomial, Measure) {
	cost, value := constant(common.StructCreateBaseCost), AtMost(1)
	for _, field := range s.Fields() {
		own, m := b.expression(field.AsStructField().Value())
		cost = cost.plus(own)
		value.weight = value.weight.plus(m.weight).plus(constant(float64(2 + len(field.AsStructField().Name()))))
	}
	value.count = value.weight
	return cost, value
}

// loop bounds a comprehension. Its accumulator grows by what a step adds to it.
func (b *bounding) loop(c celast.ComprehensionExpr) (polynomial, Measure) {
	rangeCost, over := b.expression(c.IterRange())
	initCost, initial := b.expression(c.AccuInit())
	cost := rangeCost.plus(initCost)
	// A loop without steps gives a value a name.
	if IsEmptyList(c.IterRange()) {
		resultCost, value := b.within(map[string]Measure{c.AccuVar(): initial}).expression(c.Result())
		return cost.plus(resultCost), value
	}
	element, weight, count := b.next, b.next+1, b.next+2
	if count >= maxVariables {
		return infinite(), unbounded()
	}
	item := Measure{weight: variable(element), count: variable(element)}
	inner := b.within(map[string]Measure{
		c.AccuVar(): {weight: variable(weight), count: variable(count)},
		c.IterVar(): item,
	})
	if c.HasIterVar2() {
		inner.scope[c.IterVar2()] = item
	}
	inner.next = count + 1
	conditionCost, _ := inner.expression(c.LoopCondition())
	stepCost, step := inner.expression(c.LoopStep())
	grown := Measure{
		weight: grow(initial.weight, step.weight, weight, element, over),
		count:  grow(initial.count, step.count, count, element, over),
	}
	if occurs, _ := grown.count.uses(weight); occurs {
		grown.count = grown.weight
	}
	if occurs, _ := grown.weight.uses(count); occurs {
		return infinite(), unbounded()
	}
	steps := conditionCost.plus(stepCost).with(weight, grown.weight).with(count, grown.count).sum(element, over.weight, over.count)
	resultCost, value := b.within(map[string]Measure{c.AccuVar(): grown}).expression(c.Result())
	return cost.plus(steps).plus(resultCost), value
}

// grow is a bound of an accumulator after a loop. Own is its variable in the bound of a step.
func grow(initial, step polynomial, own, element int, over Measure) polynomial {
	occurs, once := step.uses(own)
	if !once {
		return infinite()
	}
	added := step.without(own).sum(element, over.weight, over.count)
	if !occurs {
		// Each step makes the value again, and the largest is at most all together.
		return initial.or(added)
	}
	return initial.plus(added)
}

// within returns b with more names in scope.
func (b *bounding) within(names map[string]Measure) *bounding {
	scope := make(map[string]Measure, len(b.scope)+len(names))
	maps.Copy(scope, b.scope)
	maps.Copy(scope, names)
	return &bounding{scope: scope, next: b.next}
}

// IsEmptyList reports whether an expression is [].
func IsEmptyList(e celast.Expr) bool { return e.Kind() == celast.ListKind && e.AsList().Size() == 0 }

// An argument is that of a call.
type argument struct {
	Measure

	expression celast.Expr
}

// integer returns the value of an argument that is a constant.
func (a *argument) integer() (float64, bool) {
	if a.expression.Kind() != celast.LiteralKind {
		return 0, false
	}
	i, ok := a.expression.AsLiteral().(types.Int)
	return float64(i), ok
}

// text is the same for a text.
func (a *argument) text() (string, bool) {
	if a.expression.Kind() != celast.LiteralKind {
		return "", false
	}
	s, ok := a.expression.AsLiteral().(types.String)
	return string(s), ok
}

package cel

import (
	"fmt"
	"math"

	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
)

// Admit takes from a budget what checking a parsed expression takes, and what is done with it afterwards.
// The error is that of [Budget.Done].
//
// The checker is not linear. It copies what it knows of type parameters for each overload of each
// call, and formats types at each level of them; {a: a} doubles the type of a.
func (e *Environment) Admit(b *Budget, parsed celast.Expr) error {
	if err := b.Done(); err != nil {
		return err
	}
	w := weighing{budget: b, environment: e, largest: 1}
	w.expression(parsed)
	if w.links > 0 && w.err == nil {
		// What a type parameter becomes is known only in the end: the type of each of these variables
		// may contain that of another, and a map twice.
		w.spend(float64(w.nodes) * square(w.largest*float64(1+w.links)*math.Pow(2, float64(w.doubles))))
	}
	return w.err
}

// A shape is what is known of the type of an expression before it is checked.
type shape struct {
	// weight is at least the number of types that it consists of.
	weight float64
	// open says that it may have type parameters whose types are not known yet, as that of an empty
	// list; closed that there are none, even where something else is open.
	open, closed bool
}

func (s shape) or(other shape) shape {
	return shape{weight: max(s.weight, other.weight), open: s.open || other.open}
}

// variablesName is the variable whose fields are those of a policy: see [Budget.Variable].
const variablesName = "variables"

// selected is at least the weight of a field of the other variables that policies have.
const selected = 4

// A weighing estimates what checking one expression takes.
type weighing struct {
	budget      *Budget
	environment *Environment
	scope       *weighed
	nodes       int
	// parameters is how many type parameters are known at a node.
	parameters float64
	largest    float64
	// links are the variables in the expression whose types are open.
	links int
	// doubles are the maps that may contain an open type twice.
	doubles int
	err     error
}

// A weighed is a variable of a loop.
type weighed struct {
	name  string
	shape shape
	outer *weighed
}

func (w *weighing) spend(units float64) {
	if w.err == nil {
		w.err = w.budget.spend(units, fmt.Sprintf("the types of its first %d parts", w.nodes))
	}
}

func square(x float64) float64 { return x * x }

// tries adds overloads or unifications that are tried on types.
func (w *weighing) tries(count, weight float64) {
	w.spend(count * (parameterEffort*w.parameters + square(weight)))
}

// expression returns the shape of an expression. It stops at an error.
func (w *weighing) expression(e celast.Expr) shape {
	if w.err != nil {
		return shape{weight: 1}
	}
	w.nodes++
	w.spend(nodeEffort)
	var s shape
	switch e.Kind() {
	case celast.IdentKind:
		s = w.named(e.AsIdent())
	case celast.SelectKind:
		s = w.selection(e.AsSelect())
	case celast.CallKind:
		s = w.call(e.AsCall())
	case celast.ListKind:
		s = w.list(e.AsList())
	case celast.MapKind:
		s = w.mapping(e.AsMap())
	case celast.ComprehensionKind:
		s = w.loop(e.AsComprehension())
	case celast.StructKind, celast.LiteralKind, celast.UnspecifiedExprKind:
		for _, part := range Parts(e) {
			w.tries(1, w.expression(part).weight)
		}
	}
	s.weight = max(1, s.weight)
	w.largest = max(w.largest, s.weight)
	w.spend(square(s.weight))
	return s
}

func (w *weighing) named(name string) shape {
	for v := w.scope; v != nil; v = v.outer {
		if v.name == name {
			return v.shape
		}
	}
	if name == variablesName {
		return shape{weight: w.budget.heaviest}
	}
	return shape{weight: 1}
}

func (w *weighing) selection(s celast.SelectExpr) shape {
	if of := s.Operand(); of.Kind() == celast.IdentKind && of.AsIdent() == variablesName && !s.IsTestOnly() && w.isVariable(variablesName) {
		w.nodes++
		return shape{weight: max(selected, w.budget.variables[s.FieldName()])}
	}
	of := w.expression(s.Operand())
	if s.IsTestOnly() {
		return shape{weight: 1}
	}
	return shape{weight: max(selected, of.weight), open: of.open}
}

// isVariable reports whether a name is not that of a loop.
func (w *weighing) isVariable(name string) bool {
	for v := w.scope; v != nil; v = v.outer {
		if v.name == name {
			return false
		}
	}
	return true
}

func (w *weighing) list(l celast.ListExpr) shape {
	if l.Size() == 0 {
		w.parameters++
		return shape{weight: 2, open: true}
	}
	all := w.same(l.Elements())
	return shape{weight: 1 + all.weight, open: all.open, closed: !all.open}
}

// same returns the shape of expressions that have one type.
func (w *weighing) same(all []celast.Expr) shape {
	of := shape{open: true}
	for _, e := range all {
		s := w.expression(e)
		w.tries(1, s.weight)
		of.weight, of.open = max(of.weight, s.weight), of.open && s.open
	}
	return of
}

func (w *weighing) mapping(m celast.MapExpr) shape {
	if m.Size() == 0 {
		w.parameters += 2
		return shape{weight: 3, open: true}
	}
	var keys, values []celast.Expr
	for _, entry := range m.Entries() {
		keys, values = append(keys, entry.AsMapEntry().Key()), append(values, entry.AsMapEntry().Value())
	}
	key, value := w.same(keys), w.same(values)
	if key.open && value.open {
		w.doubles++
	}
	return shape{weight: 1 + key.weight + value.weight, open: key.open || value.open}
}

func (w *weighing) loop(c celast.ComprehensionExpr) shape {
	over, before := w.expression(c.IterRange()), w.expression(c.AccuInit())
	item, binds := shape{weight: over.weight, open: over.open}, IsEmptyList(c.IterRange())
	if over.open && !binds || before.open && binds {
		w.links++
	}
	outer := w.scope
	defer func() { w.scope = outer }()
	w.scope = &weighed{name: c.AccuVar(), shape: before, outer: w.scope}
	inner := w.scope
	for _, name := range []string{c.IterVar(), c.IterVar2()} {
		if name != "" {
			w.scope = &weighed{name: name, shape: item, outer: w.scope}
		}
	}
	w.expression(c.LoopCondition())
	step := w.expression(c.LoopStep())
	w.tries(4, max(over.weight, before.weight, step.weight))
	w.parameters++
	if !binds {
		before = shape{weight: max(before.weight, step.weight), open: before.open && step.open}
	}
	inner.shape = before
	w.scope = inner
	return w.expression(c.Result())
}

func (w *weighing) call(c celast.CallExpr) shape {
	s := w.signature(c)
	if s.pattern >= 0 && s.pattern < len(c.Args()) {
		w.pattern(c.Args()[s.pattern])
	}
	var args []shape
	all := shape{}
	var sum float64
	add := func(e celast.Expr) {
		arg := w.expression(e)
		all, sum = all.or(arg), sum+arg.weight
		args = append(args, arg)
	}
	if c.IsMemberFunction() {
		add(c.Target())
	}
	for _, arg := range c.Args() {
		add(arg)
	}
	w.tries(s.overloads, max(all.weight, s.fixed))
	w.parameters += s.parameters
	of := shape{weight: s.fixed}
	if s.generic {
		of.weight = max(of.weight, s.extra+all.weight)
		of.open = s.fresh && c.FunctionName() != operators.OptSelect || isOpen(c.FunctionName(), args)
		of.closed = !of.open && c.FunctionName() == operators.Add
	}
	if s.pair {
		if of.open {
			w.doubles++
		}
		of.weight = max(of.weight, s.extra+sum)
	}
	return of
}

// isOpen reports whether the type of a call is open that has a type parameter of its arguments.
func isOpen(function string, args []shape) bool {
	any, all, closed := false, true, false
	switch function {
	case operators.Conditional:
		args = args[min(1, len(args)):]
	case "cel.@mapInsert":
		args = args[min(2, len(args)):]
	}
	for _, arg := range args {
		any, all, closed = any || arg.open, all && arg.open, closed || arg.closed
	}
	switch function {
	case operators.Conditional, "or", "orValue":
		// One operand says what the type of the other is.
		return all
	case operators.Add:
		return any && !closed
	}
	return any
}

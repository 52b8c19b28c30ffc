package closure

import (
	"github.com/google/cel-go/common/functions"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"

	"github.com/usher-dev/usher/internal/lang/cel/meter"
)

// A call is one of a function that cel-go implements.
type call struct {
	id       int64
	function string
	overload string
	args     []node
	impl     *functions.Overload
	// many says that the implementation takes any number of arguments.
	many bool
	// takes bounds the call.
	takes meter.Bound
}

func (c *call) eval(f *Frame) any {
	if c.many || len(c.args) > 2 {
		return c.variadic(f)
	}
	switch len(c.args) {
	case 0:
		return c.impl.Function()
	case 1:
		return c.unary(f, f.value(c.args[0].eval(f)))
	}
	left := f.value(c.args[0].eval(f))
	right := f.value(c.args[1].eval(f))
	return c.binary(f, left, right)
}

// apply calls the function with one or two values.
func (c *call) apply(f *Frame, args ...any) any {
	if c.many {
		values := make([]ref.Val, len(args))
		for i, arg := range args {
			if values[i] = f.value(arg); c.strict() && isError(values[i]) {
				return values[i]
			}
		}
		return c.call(f, values)
	}
	if len(args) == 1 {
		return c.unary(f, f.value(args[0]))
	}
	return c.binary(f, f.value(args[0]), f.value(args[1]))
}

func (c *call) strict() bool { return c.impl == nil || !c.impl.NonStrict }

// accepts reports whether the implementation is for the first argument.
func (c *call) accepts(first ref.Val) bool {
	return c.impl.OperandTrait == 0 || !c.strict() && isError(first) || first.Type().HasTrait(c.impl.OperandTrait)
}

func (c *call) unary(f *Frame, arg ref.Val) any {
	if c.strict() && isError(arg) {
		return arg
	}
	c.takes(f.meter, arg, nil, nil, nil)
	if c.impl != nil && c.accepts(arg) {
		return c.impl.Unary(arg)
	}
	return c.receive(arg, "no such overload: %s", c.function)
}

func (c *call) binary(f *Frame, left, right ref.Val) any {
	if c.strict() {
		if isError(left) {
			return left
		}
		if isError(right) {
			return right
		}
	}
	c.takes(f.meter, left, right, nil, nil)
	if c.impl != nil && c.accepts(left) {
		return c.impl.Binary(left, right)
	}
	return c.receive(left, "no such overload: %s", c.function, right)
}

func (c *call) variadic(f *Frame) any {
	values := make([]ref.Val, len(c.args))
	for i, arg := range c.args {
		values[i] = f.value(arg.eval(f))
		if c.strict() && isError(values[i]) {
			return values[i]
		}
	}
	return c.call(f, values)
}

func (c *call) call(f *Frame, values []ref.Val) any {
	var args [4]ref.Val
	copy(args[:], values)
	c.takes(f.meter, args[0], args[1], args[2], args[3])
	if c.impl != nil && c.accepts(values[0]) {
		return c.impl.Function(values...)
	}
	if values[0].Type().HasTrait(traits.ReceiverType) {
		return values[0].(traits.Receiver).Receive(c.function, c.overload, values[1:])
	}
	return types.NewErr("no such overload: %s %d", c.function, c.id)
}

// receive asks the first argument for a method.
func (c *call) receive(first ref.Val, format, function string, more ...ref.Val) any {
	if first.Type().HasTrait(traits.ReceiverType) {
		if more == nil {
			more = []ref.Val{}
		}
		return first.(traits.Receiver).Receive(c.function, c.overload, more)
	}
	return types.NewErr(format, function)
}

// A search is a call with a constant regular expression that cel-go has compiled.
type search struct {
	of      interpreter.Interpretable
	args    []node
	pattern *meter.Pattern
	// all says that every match is found.
	all bool
}

func (n *search) eval(f *Frame) any {
	e := &evaluated{Frame: f, values: make([]ref.Val, len(n.args))}
	for i, arg := range n.args {
		e.values[i] = f.value(arg.eval(f))
	}
	text, _ := textOf(e.values[0])
	if !n.all {
		f.meter.Find(n.pattern, text)
	} else {
		limit := int64(-1)
		if last, ok := e.values[len(e.values)-1].(types.Int); ok {
			limit = int64(last)
		}
		f.meter.FindAll(n.pattern, text, limit)
		f.meter.Take(2 * meter.ItemBytes * int64(len(text)+1))
	}
	return n.of.Eval(e)
}

// An evaluated is the arguments of a call that cel-go makes.
type evaluated struct {
	*Frame

	values []ref.Val
}

// An argument is one of [evaluated], as cel-go has it.
type argument struct {
	id    int64
	index int
}

// ID implements [interpreter.Interpretable].
func (a *argument) ID() int64 { return a.id }

// Eval implements [interpreter.Interpretable].
func (a *argument) Eval(variables interpreter.Activation) ref.Val {
	return variables.(*evaluated).values[a.index]
}

// ResolveName implements [interpreter.Activation].
func (f *Frame) ResolveName(name string) (any, bool) { return f.variables.ResolveName(name) }

// Parent implements [interpreter.Activation].
func (f *Frame) Parent() interpreter.Activation { return f.variables }

package closure

import (
	"github.com/google/cel-go/common/functions"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"
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
}

func (c *call) eval(f *Frame) any {
	if c.many || len(c.args) > 2 {
		return c.variadic(f)
	}
	switch len(c.args) {
	case 0:
		return c.impl.Function()
	case 1:
		return c.unary(f.value(c.args[0].eval(f)))
	}
	left := f.value(c.args[0].eval(f))
	right := f.value(c.args[1].eval(f))
	return c.binary(left, right)
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
		return c.call(values)
	}
	if len(args) == 1 {
		return c.unary(f.value(args[0]))
	}
	return c.binary(f.value(args[0]), f.value(args[1]))
}

func (c *call) strict() bool { return c.impl == nil || !c.impl.NonStrict }

// takes reports whether the implementation is for the first argument.
func (c *call) takes(first ref.Val) bool {
	return c.impl.OperandTrait == 0 || !c.strict() && isError(first) || first.Type().HasTrait(c.impl.OperandTrait)
}

func (c *call) unary(arg ref.Val) any {
	if c.strict() && isError(arg) {
		return arg
	}
	if c.impl != nil && c.takes(arg) {
		return c.impl.Unary(arg)
	}
	return c.receive(arg, "no such overload: %s", c.function)
}

func (c *call) binary(left, right ref.Val) any {
	if c.strict() {
		if isError(left) {
			return left
		}
		if isError(right) {
			return right
		}
	}
	if c.impl != nil && c.takes(left) {
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
	return c.call(values)
}

func (c *call) call(values []ref.Val) any {
	if c.impl != nil && c.takes(values[0]) {
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

// An interpreted is a call that cel-go evaluates, with arguments that are nodes.
type interpreted struct{ of interpreter.Interpretable }

func (i *interpreted) eval(f *Frame) any { return i.of.Eval(f) }

// An argument is a node as cel-go has it.
type argument struct {
	id int64
	of node
}

// ID implements [interpreter.Interpretable].
func (a *argument) ID() int64 { return a.id }

// Eval implements [interpreter.Interpretable].
func (a *argument) Eval(variables interpreter.Activation) ref.Val {
	f := variables.(*Frame)
	return f.value(a.of.eval(f))
}

// ResolveName implements [interpreter.Activation].
func (f *Frame) ResolveName(name string) (any, bool) { return f.variables.ResolveName(name) }

// Parent implements [interpreter.Activation].
func (f *Frame) Parent() interpreter.Activation { return f.variables }

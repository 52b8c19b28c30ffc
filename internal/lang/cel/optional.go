package cel

import (
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
)

// optionals is what the program options of [cel.OptionalTypes] do: or and orValue evaluate their
// argument only if it is used.
func optionals(i interpreter.Interpretable) (interpreter.Interpretable, error) {
	call, ok := i.(interpreter.InterpretableCall)
	if !ok || len(call.Args()) != 2 {
		return i, nil
	}
	either := alternative{id: call.ID(), left: call.Args()[0], right: call.Args()[1]}
	switch overload := call.OverloadID(); {
	case call.Function() == "or" && (overload == "" || overload == "optional_or_optional"):
		return &optionalOr{either}, nil
	case call.Function() == "orValue" && (overload == "" || overload == "optional_orValue_value"):
		return &optionalOrValue{either}, nil
	}
	return i, nil
}

// An alternative is the left operand if it has a value, and the right one otherwise.
type alternative struct {
	id          int64
	left, right interpreter.Interpretable
}

// ID implements [interpreter.Interpretable].
func (a *alternative) ID() int64 { return a.id }

type optionalOr struct{ alternative }

// Eval implements [interpreter.Interpretable].
func (o *optionalOr) Eval(variables interpreter.Activation) ref.Val {
	left := o.left.Eval(variables)
	if optional, ok := left.(*types.Optional); ok && !optional.HasValue() {
		return o.right.Eval(variables)
	}
	return left
}

type optionalOrValue struct{ alternative }

// Eval implements [interpreter.Interpretable].
func (o *optionalOrValue) Eval(variables interpreter.Activation) ref.Val {
	left := o.left.Eval(variables)
	optional, ok := left.(*types.Optional)
	switch {
	case !ok:
		return left
	case optional.HasValue():
		return optional.GetValue()
	}
	return o.right.Eval(variables)
}

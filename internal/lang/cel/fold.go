package cel

import (
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
	apiservercel "k8s.io/apiserver/pkg/cel"

	"github.com/usher-dev/usher/internal/lang/quantity"
)

// maxFolded is the longest text that is parsed when a program is made.
const maxFolded = 256

// foldConstants evaluates calls that parse a constant once. A call with an error stays: it need
// not be reached.
func foldConstants(i interpreter.Interpretable) (interpreter.Interpretable, error) {
	call, ok := i.(interpreter.InterpretableCall)
	if !ok || !isParser(call.Function()) {
		return i, nil
	}
	for _, arg := range call.Args() {
		constant, ok := arg.(interpreter.InterpretableConst)
		if !ok {
			return i, nil
		}
		if text, ok := constant.Value().(types.String); ok && (len(text) > maxFolded || !quantity.Parses(string(text))) {
			return i, nil
		}
	}
	value := call.Eval(interpreter.EmptyActivation())
	if types.IsUnknownOrError(value) {
		return i, nil
	}
	if q, ok := value.(apiservercel.Quantity); ok {
		return &parsedQuantity{call: call, value: q}, nil
	}
	return interpreter.NewConstValue(call.ID(), value), nil
}

// isParser reports whether a function makes a value of a text. Calls of others are not folded:
// some take long, or make large values.
func isParser(function string) bool {
	switch function {
	case "quantity", "isQuantity", "semver", "isSemver", "url", "isURL", "ip", "isIP", "ip.isCanonical", "cidr", "isCIDR", "format.named":
		return true
	}
	return false
}

// A parsedQuantity is a call with a constant value. Calculating with a quantity changes how it is
// represented, so each evaluation has its own.
type parsedQuantity struct {
	call  interpreter.InterpretableCall
	value apiservercel.Quantity
}

// ID implements [interpreter.Interpretable].
func (q *parsedQuantity) ID() int64 { return q.call.ID() }

// Eval implements [interpreter.Interpretable].
func (q *parsedQuantity) Eval(interpreter.Activation) ref.Val {
	own := q.value.DeepCopy()
	return apiservercel.Quantity{Quantity: &own}
}

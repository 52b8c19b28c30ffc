package cel

import (
	"github.com/google/cel-go/common/functions"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
)

// withinLimit returns overloads that do nothing if the cost of the call alone exceeds the limit of an
// expression. API servers count the cost of a call when it has ended. But to compare each element of
// a long list with each other takes hours, and lists.range makes a list as long as a number says.
func withinLimit(overloads []*functions.Overload) []*functions.Overload {
	limited := make([]*functions.Overload, len(overloads))
	for i, o := range overloads {
		limited[i] = o
		cost := excessCost(o.Operator)
		if cost == nil {
			continue
		}
		own := *o
		if unary := o.Unary; unary != nil {
			own.Unary = func(value ref.Val) ref.Val {
				if exceeds(cost, value) {
					return types.NewErr("operation cancelled: actual cost limit exceeded")
				}
				return unary(value)
			}
		}
		if binary := o.Binary; binary != nil {
			own.Binary = func(left, right ref.Val) ref.Val {
				if exceeds(cost, left, right) {
					return types.NewErr("operation cancelled: actual cost limit exceeded")
				}
				return binary(left, right)
			}
		}
		limited[i] = &own
	}
	return limited
}

// excessCost returns what a call costs that may take far longer than it is to read its arguments; nil
// for other overloads. The result of the call is nil.
func excessCost(overload string) interpreter.FunctionTracker {
	switch overload {
	case "list_distinct":
		return compareCost(0)
	case "list_sets_contains_list", "list_sets_intersects_list":
		return setsCost(1)
	case "list_sets_equivalent_list":
		return setsCost(2)
	case "lists_range":
		return rangeCost
	}
	return nil
}

// rangeCost is the cost of making a list as long as a number says.
func rangeCost(args []ref.Val, result ref.Val) *uint64 {
	n, ok := args[0].(types.Int)
	if !ok {
		return resultCost(args, result)
	}
	return listCost(1, uint64(max(n, 0)))
}

func exceeds(cost interpreter.FunctionTracker, args ...ref.Val) bool {
	for _, arg := range args {
		switch arg.(type) {
		case traits.Lister, types.Int:
		default:
			return false
		}
	}
	return *cost(args, types.NullValue) > celconfig.PerCallLimit
}

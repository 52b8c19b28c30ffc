package cel

import (
	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"
)

// costTrackers are those of the program options of API servers, and of the libraries sets and
// lists of cel-go, which does not export them. They panic where those do: if an argument is an
// error, the evaluation ends with the panic as its error, even in an operand of || that does not
// matter.
func costTrackers() []interpreter.CostTrackerOption {
	options := []interpreter.CostTrackerOption{
		interpreter.PresenceTestHasCost(false),
		interpreter.OverloadCostTracker("list_sets_contains_list", setsCost(1)),
		interpreter.OverloadCostTracker("list_sets_intersects_list", setsCost(1)),
		interpreter.OverloadCostTracker("list_sets_equivalent_list", setsCost(2)),
		interpreter.OverloadCostTracker("list_slice", resultCost),
		interpreter.OverloadCostTracker("lists_range", rangeCost),
		interpreter.OverloadCostTracker("list_reverse", resultCost),
		interpreter.OverloadCostTracker("list_flatten", flattenCost),
		interpreter.OverloadCostTracker("list_flatten_int", flattenCost),
		interpreter.OverloadCostTracker("list_distinct", compareCost(0)),
	}
	for _, t := range comparableTypes() {
		options = append(options,
			interpreter.OverloadCostTracker("list_"+t.TypeName()+"_sort", compareCost(0)),
			interpreter.OverloadCostTracker("list_"+t.TypeName()+"_sortByAssociatedKeys", compareCost(1)))
	}
	return options
}

// setsCost is the cost of comparing each element of one list with each of another.
func setsCost(factor float64) interpreter.FunctionTracker {
	return func(args []ref.Val, _ ref.Val) *uint64 {
		cost := 1 + uint64(float64(sizeOf(args[0])*sizeOf(args[1]))*factor)
		return &cost
	}
}

// rangeCost is the cost of making a list as long as a number says.
func rangeCost(args []ref.Val, result ref.Val) *uint64 {
	n, ok := args[0].(types.Int)
	if !ok {
		return resultCost(args, result)
	}
	return listCost(1, uint64(max(n, 0)))
}

// resultCost is the cost of making a list.
func resultCost(_ []ref.Val, result ref.Val) *uint64 { return listCost(1, sizeOf(result)) }

func flattenCost(args []ref.Val, _ ref.Val) *uint64 {
	depth := 1.0
	if len(args) == 2 {
		depth = float64(args[1].(types.Int))
	}
	return listCost(depth, sizeOf(args[0]))
}

// compareCost is the cost of comparing the elements of a list, which is an argument, with one
// another.
func compareCost(argument int) interpreter.FunctionTracker {
	return func(args []ref.Val, _ ref.Val) *uint64 {
		list := args[argument].(traits.Lister)
		factor, size := 2.0, sizeOf(list)
		if size == 0 {
			return listCost(factor, 0)
		}
		if first := list.Get(types.IntZero).Type(); first == types.StringType || first == types.BytesType {
			factor += common.StringTraversalCostFactor
		}
		return listCost(factor, size*size)
	}
}

func listCost(factor float64, size uint64) *uint64 {
	cost := uint64(float64(size)*factor) + 1 + common.ListCreateBaseCost
	return &cost
}

func sizeOf(value ref.Val) uint64 {
	sizer, ok := value.(traits.Sizer)
	if !ok {
		return 1
	}
	return uint64(sizer.Size().(types.Int))
}

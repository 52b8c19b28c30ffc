package cel

import (
	"cmp"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/decls"
	"github.com/google/cel-go/common/functions"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// comparableTypes are the types of lists that can be sorted.
func comparableTypes() []*cel.Type {
	return []*cel.Type{
		cel.IntType, cel.UintType, cel.DoubleType, cel.BoolType, cel.DurationType, cel.TimestampType, cel.StringType, cel.BytesType,
	}
}

// compared returns which argument is the list whose elements a function compares with one another; -1
// for other functions.
func compared(function string) int {
	switch function {
	case "distinct", "sort":
		return 0
	case "@sortByAssociatedKeys":
		return 1
	}
	return -1
}

// strictly returns the overloads of a function such that it ends an evaluation with a panic if what it
// compares is no list. That is what counting the cost does in an API server, see [compareCost], also in
// an operand of || that does not matter, and so a program that does not count has to do it, too.
func strictly(function *decls.FunctionDecl, overloads []*functions.Overload) []*functions.Overload {
	list := compared(function.Name())
	if list < 0 || len(overloads) == 0 {
		return overloads
	}
	// The one of the function itself is for calls whose overload is not known: their cost is another.
	named := map[string]*functions.Overload{}
	for _, o := range overloads {
		named[o.Operator] = o
	}
	all := []*functions.Overload{named[function.Name()]}
	cost := compareCost(list)
	for _, declared := range function.OverloadDecls() {
		o := cmp.Or(named[declared.ID()], named[function.Name()])
		unary, binary := o.Unary, o.Binary
		checked := &functions.Overload{Operator: declared.ID(), NonStrict: true}
		if unary != nil {
			checked.Unary = func(value ref.Val) ref.Val {
				if _, ok := value.(traits.Lister); !ok {
					cost([]ref.Val{value}, nil)
				}
				return unary(value)
			}
		}
		if binary != nil {
			checked.Binary = func(left, right ref.Val) ref.Val {
				if _, ok := right.(traits.Lister); !ok {
					cost([]ref.Val{left, right}, nil)
				}
				if _, ok := left.(traits.Lister); !ok {
					return types.ValOrErr(left, "no such overload: %s", function.Name())
				}
				return binary(left, right)
			}
		}
		all = append(all, checked)
	}
	return all
}

package cel

import (
	"slices"

	"github.com/google/cel-go/common/functions"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

// apart returns the overloads of + such that joined bytes share no memory. cel-go appends to the left ones
// in place: if these are a constant, what one request has joined changes when another one is evaluated.
func apart(function string, overloads []*functions.Overload) []*functions.Overload {
	if function != operators.Add {
		return overloads
	}
	all := make([]*functions.Overload, len(overloads))
	for i, o := range overloads {
		own := *o
		if binary := o.Binary; binary != nil {
			own.Binary = func(left, right ref.Val) ref.Val {
				if b, ok := left.(types.Bytes); ok {
					left = slices.Clip(b)
				}
				return binary(left, right)
			}
		}
		all[i] = &own
	}
	return all
}

package cel

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/google/cel-go/common/functions"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// apart returns the overloads of + such that what is joined shares nothing that matters.
//
// cel-go appends to the bytes on the left in place: if these are a constant, what one request has joined
// changes when another one is evaluated. And it keeps two lists as two, so that the time to read one which
// was joined with itself again and again doubles each time.
func apart(function string, overloads []*functions.Overload) []*functions.Overload {
	if function != operators.Add {
		return overloads
	}
	all := make([]*functions.Overload, len(overloads))
	for i, o := range overloads {
		own := *o
		if binary := o.Binary; binary != nil {
			own.Binary = func(left, right ref.Val) ref.Val {
				switch l := left.(type) {
				case types.Bytes:
					left = slices.Clip(l)
				case traits.MutableLister:
				case traits.Lister:
					if r, ok := right.(traits.Lister); ok {
						return join(l, r)
					}
				}
				return binary(left, right)
			}
		}
		all[i] = &own
	}
	return all
}

// join returns a list of the items of two.
func join(left, right traits.Lister) ref.Val {
	switch {
	case left.Size() == types.IntZero:
		return right
	case right.Size() == types.IntZero:
		return left
	}
	items := make([]ref.Val, 0, sizeOf(left)+sizeOf(right))
	for _, l := range []traits.Lister{left, right} {
		for i := range types.Int(sizeOf(l)) {
			items = append(items, l.Get(i))
		}
	}
	return &joined{types.NewRefValList(adapter{types.DefaultTypeAdapter}, items), items}
}

// A joined list is one that was made of two. It is converted as cel-go converts such lists.
type joined struct {
	traits.Lister

	items []ref.Val
}

// Add implements [traits.Adder].
func (j *joined) Add(other ref.Val) ref.Val {
	if l, ok := other.(traits.Lister); ok {
		return join(j, l)
	}
	return types.MaybeNoSuchOverloadErr(other)
}

// IsZeroValue implements [traits.Zeroer].
func (j *joined) IsZeroValue() bool { return false }

// ConvertToNative implements [ref.Val].
func (j *joined) ConvertToNative(to reflect.Type) (any, error) {
	return types.NewDynamicList(adapter{types.DefaultTypeAdapter}, j.values()).ConvertToNative(to)
}

// ConvertToType implements [ref.Val].
func (j *joined) ConvertToType(to ref.Type) ref.Val {
	if to == types.ListType {
		return j
	}
	return j.Lister.ConvertToType(to)
}

// Value implements [ref.Val].
func (j *joined) Value() any { return j.values() }

func (j *joined) values() []any {
	values := make([]any, len(j.items))
	for i, item := range j.items {
		values[i] = item.Value()
	}
	return values
}

// String implements [fmt.Stringer].
func (j *joined) String() string {
	texts := make([]string, len(j.items))
	for i, item := range j.items {
		texts[i] = fmt.Sprint(item)
	}
	return "[" + strings.Join(texts, ", ") + "]"
}

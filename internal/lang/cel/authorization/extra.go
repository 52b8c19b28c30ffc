package authorization

import (
	"reflect"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// An extra is what is known of a user besides name and groups, as a map value. Reading one
// key, which is what expressions do, takes no reflection.
type extra map[string][]string

var _ traits.Mapper = extra(nil)

// Find implements [traits.Mapper].
func (e extra) Find(key ref.Val) (ref.Val, bool) {
	text, ok := key.(types.String)
	if !ok {
		return types.MaybeNoSuchOverloadErr(key), false
	}
	values, found := e[string(text)]
	if !found {
		return nil, false
	}
	return types.NewStringList(types.DefaultTypeAdapter, values), true
}

// Get implements [traits.Indexer].
func (e extra) Get(key ref.Val) ref.Val {
	value, found := e.Find(key)
	if !found {
		return types.ValOrErr(value, "no such key: %v", key)
	}
	return value
}

// Contains implements [traits.Container].
func (e extra) Contains(key ref.Val) ref.Val {
	value, found := e.Find(key)
	if value != nil && types.IsUnknownOrError(value) {
		return value
	}
	return types.Bool(found)
}

// Size implements [traits.Sizer].
func (e extra) Size() ref.Val { return types.Int(len(e)) }

// Iterator implements [traits.Iterable].
func (e extra) Iterator() traits.Iterator { return e.general().Iterator() }

// Equal implements [ref.Val].
func (e extra) Equal(other ref.Val) ref.Val { return e.general().Equal(other) }

// ConvertToNative implements [ref.Val].
func (e extra) ConvertToNative(t reflect.Type) (any, error) { return e.general().ConvertToNative(t) }

// ConvertToType implements [ref.Val].
func (e extra) ConvertToType(t ref.Type) ref.Val { return e.general().ConvertToType(t) }

// Type implements [ref.Val].
func (e extra) Type() ref.Type { return types.MapType }

// Value implements [ref.Val].
func (e extra) Value() any { return map[string][]string(e) }

// general is the same map for what is seldom done with it.
func (e extra) general() traits.Mapper {
	return types.NewDynamicMap(types.DefaultTypeAdapter, map[string][]string(e))
}

package cel

import (
	"fmt"
	"reflect"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"

	"github.com/usher-dev/usher/internal/lang/cel/meter"
)

// A Record is a map value whose entries are made when they are read. Expressions cannot tell it from
// a map.
type Record struct {
	// Names are the keys that there may be.
	Names []string
	// Field returns the value of a key, and whether there is one.
	Field func(name string) (any, bool)
}

var (
	_ traits.Mapper = (*Record)(nil)
	_ traits.Zeroer = (*Record)(nil)
)

// Lookup implements [closure.Lookup].
func (r *Record) Lookup(name string) (any, bool) { return r.Field(name) }

// Find implements [traits.Mapper].
func (r *Record) Find(key ref.Val) (ref.Val, bool) {
	name, ok := key.(types.String)
	if !ok {
		return nil, false
	}
	value, found := r.Field(string(name))
	if !found {
		return nil, false
	}
	return Value(value), true
}

// Get implements [traits.Indexer].
func (r *Record) Get(key ref.Val) ref.Val {
	value, found := r.Find(key)
	if !found {
		return types.NewErr("no such key: %v", key)
	}
	return value
}

// Contains implements [traits.Container].
func (r *Record) Contains(key ref.Val) ref.Val {
	_, found := r.Find(key)
	return types.Bool(found)
}

// Size implements [traits.Sizer].
func (r *Record) Size() ref.Val { return r.whole().Size() }

// IsZeroValue implements [traits.Zeroer].
func (r *Record) IsZeroValue() bool { return r.whole().IsZeroValue() }

// Iterator implements [traits.Iterable].
func (r *Record) Iterator() traits.Iterator { return r.whole().Iterator() }

// Equal implements [ref.Val].
func (r *Record) Equal(other ref.Val) ref.Val { return r.whole().Equal(other) }

// ConvertToNative implements [ref.Val].
func (r *Record) ConvertToNative(to reflect.Type) (any, error) { return r.whole().ConvertToNative(to) }

// ConvertToType implements [ref.Val].
func (r *Record) ConvertToType(to ref.Type) ref.Val { return r.whole().ConvertToType(to) }

// Type implements [ref.Val].
func (r *Record) Type() ref.Type { return types.MapType }

// Value implements [ref.Val].
func (r *Record) Value() any { return r.whole().Value() }

// String implements [fmt.Stringer].
func (r *Record) String() string { return fmt.Sprint(r.whole()) }

// Weigh implements [meter.Weigher].
func (r *Record) Weigh(m *meter.Meter) int64 { return m.Weigh(r.whole()) }

func (r *Record) whole() tree {
	all := make(map[string]any, len(r.Names))
	for _, name := range r.Names {
		value, found := r.Field(name)
		if !found {
			continue
		}
		if part, ok := value.(ref.Val); ok {
			value = part.Value()
		}
		all[name] = value
	}
	return treeOf(all)
}

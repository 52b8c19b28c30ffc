package cel

import (
	"fmt"
	"reflect"
	"unsafe"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// An adapter makes values of decoded objects without copying them.
type adapter struct{ types.Adapter }

// NativeToValue implements [types.Adapter].
func (a adapter) NativeToValue(value any) ref.Val {
	switch v := value.(type) {
	case ref.Val:
		return v
	case map[string]any:
		return treeOf(v)
	case []any:
		return &list{v}
	}
	return a.Adapter.NativeToValue(value)
}

// Value returns the value of a decoded object, or of a part of one.
func Value(native any) ref.Val { return adapter{types.DefaultTypeAdapter}.NativeToValue(native) }

// A tree is a decoded object as a map value. It is the pointer that a map is: to wrap one takes no
// memory, and unlike a map it can be the key of a map, as cel-go makes them of values.
type tree struct{ pointer unsafe.Pointer }

var (
	_ traits.Mapper   = tree{}
	_ traits.Foldable = tree{}
	_ traits.Zeroer   = tree{}
)

func treeOf(m map[string]any) tree { return tree{*(*unsafe.Pointer)(unsafe.Pointer(&m))} }

func (t tree) native() map[string]any { return *(*map[string]any)(unsafe.Pointer(&t.pointer)) }

// Native returns the decoded object.
func (t tree) Native() map[string]any { return t.native() }

// Find implements [traits.Mapper].
func (t tree) Find(key ref.Val) (ref.Val, bool) {
	name, ok := key.(types.String)
	if !ok {
		return nil, false
	}
	value, found := t.native()[string(name)]
	if !found {
		return nil, false
	}
	return Value(value), true
}

// Get implements [traits.Indexer].
func (t tree) Get(key ref.Val) ref.Val {
	value, found := t.Find(key)
	if !found {
		return types.NewErr("no such key: %v", key)
	}
	return value
}

// Contains implements [traits.Container].
func (t tree) Contains(key ref.Val) ref.Val {
	name, ok := key.(types.String)
	if !ok {
		return types.False
	}
	_, found := t.native()[string(name)]
	return types.Bool(found)
}

// Size implements [traits.Sizer].
func (t tree) Size() ref.Val { return types.Int(len(t.native())) }

// IsZeroValue implements [traits.Zeroer].
func (t tree) IsZeroValue() bool { return len(t.native()) == 0 }

// Iterator implements [traits.Iterable].
func (t tree) Iterator() traits.Iterator {
	native := t.native()
	keys := make([]any, 0, len(native))
	for key := range native {
		keys = append(keys, key)
	}
	return &iterator{items: keys}
}

// Fold implements [traits.Foldable].
func (t tree) Fold(f traits.Folder) {
	for key, value := range t.native() {
		if !f.FoldEntry(key, value) {
			return
		}
	}
}

// Equal implements [ref.Val].
func (t tree) Equal(other ref.Val) ref.Val { return t.general().Equal(other) }

// ConvertToNative implements [ref.Val].
func (t tree) ConvertToNative(to reflect.Type) (any, error) { return t.general().ConvertToNative(to) }

// ConvertToType implements [ref.Val].
func (t tree) ConvertToType(to ref.Type) ref.Val { return t.general().ConvertToType(to) }

// Type implements [ref.Val].
func (t tree) Type() ref.Type { return types.MapType }

// Value implements [ref.Val].
func (t tree) Value() any { return t.native() }

// String implements [fmt.Stringer].
func (t tree) String() string { return fmt.Sprint(t.general()) }

// general is the same map for what is seldom done with one.
func (t tree) general() traits.Mapper {
	return types.NewStringInterfaceMap(adapter{types.DefaultTypeAdapter}, t.native())
}

// A list is a list of a decoded object as a list value.
type list struct{ items []any }

var (
	_ traits.Lister   = (*list)(nil)
	_ traits.Foldable = (*list)(nil)
	_ traits.Zeroer   = (*list)(nil)
)

// Items returns the items as they were decoded.
func (l *list) Items() []any { return l.items }

// Get implements [traits.Indexer].
func (l *list) Get(index ref.Val) ref.Val {
	i, err := types.IndexOrError(index)
	if err != nil || i < 0 || i >= len(l.items) {
		return l.general().Get(index)
	}
	return Value(l.items[i])
}

// Contains implements [traits.Container].
func (l *list) Contains(value ref.Val) ref.Val {
	for _, item := range l.items {
		if value.Equal(Value(item)) == types.True {
			return types.True
		}
	}
	return types.False
}

// Size implements [traits.Sizer].
func (l *list) Size() ref.Val { return types.Int(len(l.items)) }

// IsZeroValue implements [traits.Zeroer].
func (l *list) IsZeroValue() bool { return len(l.items) == 0 }

// Iterator implements [traits.Iterable].
func (l *list) Iterator() traits.Iterator { return &iterator{items: l.items} }

// Fold implements [traits.Foldable].
func (l *list) Fold(f traits.Folder) {
	for i, item := range l.items {
		if !f.FoldEntry(i, item) {
			return
		}
	}
}

// Add implements [traits.Adder].
func (l *list) Add(other ref.Val) ref.Val { return l.general().Add(other) }

// Equal implements [ref.Val].
func (l *list) Equal(other ref.Val) ref.Val { return l.general().Equal(other) }

// ConvertToNative implements [ref.Val].
func (l *list) ConvertToNative(to reflect.Type) (any, error) { return l.general().ConvertToNative(to) }

// ConvertToType implements [ref.Val].
func (l *list) ConvertToType(to ref.Type) ref.Val { return l.general().ConvertToType(to) }

// Type implements [ref.Val].
func (l *list) Type() ref.Type { return types.ListType }

// Value implements [ref.Val].
func (l *list) Value() any { return l.items }

// String implements [fmt.Stringer].
func (l *list) String() string { return fmt.Sprint(l.general()) }

// general is the same list for what is seldom done with one.
func (l *list) general() traits.Lister {
	return types.NewDynamicList(adapter{types.DefaultTypeAdapter}, l.items)
}

// An iterator is one over a list, or over the keys of a tree.
type iterator struct {
	items []any
	at    int
}

var _ traits.Iterator = (*iterator)(nil)

// HasNext implements [traits.Iterator].
func (i *iterator) HasNext() ref.Val { return types.Bool(i.at < len(i.items)) }

// Next implements [traits.Iterator].
func (i *iterator) Next() ref.Val {
	if i.at >= len(i.items) {
		return nil
	}
	i.at++
	return Value(i.items[i.at-1])
}

// ConvertToNative implements [ref.Val].
func (i *iterator) ConvertToNative(to reflect.Type) (any, error) {
	return nil, fmt.Errorf("type conversion on iterators not supported: %s", to)
}

// ConvertToType implements [ref.Val].
func (i *iterator) ConvertToType(ref.Type) ref.Val { return types.NewErr("no such overload") }

// Equal implements [ref.Val].
func (i *iterator) Equal(ref.Val) ref.Val { return types.NewErr("no such overload") }

// Type implements [ref.Val].
func (i *iterator) Type() ref.Type { return types.IteratorType }

// Value implements [ref.Val].
func (i *iterator) Value() any { return nil }

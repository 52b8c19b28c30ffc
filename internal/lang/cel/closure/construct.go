package closure

import (
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"github.com/usher-dev/usher/internal/lang/cel/meter"
)

// A list makes a list of its elements.
type list struct {
	elements []node
	// optional says of each element whether it is left out if it has no value; nil if none is.
	optional []bool
}

func (l *list) eval(f *Frame) any {
	f.meter.Take(listBytes + int64(len(l.elements))*meter.ItemBytes)
	items := make([]any, 0, len(l.elements))
	for i, element := range l.elements {
		v := element.eval(f)
		if isError(v) {
			return v
		}
		if l.optional != nil && l.optional[i] {
			o, ok := v.(*types.Optional)
			if !ok {
				f.meter.Describe(f.value(v))
				return types.NewErr("cannot initialize optional list element from non-optional value %v", f.value(v))
			}
			if !o.HasValue() {
				continue
			}
			v = o.GetValue()
		}
		items = append(items, v)
	}
	return listOf(f, items)
}

// A dictionary makes a map of its entries.
type dictionary struct {
	keys, values []node
	optional     []bool
}

func (d *dictionary) eval(f *Frame) any {
	f.meter.Take(mapBytes + int64(len(d.keys))*meter.EntryBytes)
	f.meter.Spend(mapNanos)
	entries := map[ref.Val]ref.Val{}
	for i := range d.keys {
		key := f.value(d.keys[i].eval(f))
		if isError(key) {
			return key
		}
		f.meter.Key(key)
		value := f.value(d.values[i].eval(f))
		if isError(value) {
			return value
		}
		if d.optional[i] {
			o, ok := value.(*types.Optional)
			if !ok {
				f.meter.Describe(value)
				return types.NewErr("cannot initialize optional entry '%v' from non-optional value %v", key, value)
			}
			if !o.HasValue() {
				delete(entries, key)
				continue
			}
			value = o.GetValue()
		}
		entries[key] = value
	}
	return f.program.adapter.NativeToValue(entries)
}

// An object makes a value of a type that has fields.
type object struct {
	of       string
	provider types.Provider
	fields   []string
	values   []node
	optional []bool
}

func (o *object) eval(f *Frame) any {
	f.meter.Take(int64(len(o.fields)) * meter.EntryBytes)
	fields := make(map[string]ref.Val, len(o.fields))
	for i, name := range o.fields {
		value := f.value(o.values[i].eval(f))
		if isError(value) {
			return value
		}
		if o.optional[i] {
			optional, ok := value.(*types.Optional)
			if !ok {
				f.meter.Describe(value)
				return types.NewErr("cannot initialize optional entry '%v' from non-optional value %v", name, value)
			}
			if !optional.HasValue() {
				delete(fields, name)
				continue
			}
			value = optional.GetValue()
		}
		fields[name] = value
	}
	return o.provider.NewValue(o.of, fields)
}

package closure

import (
	"slices"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"github.com/usher-dev/usher/internal/lang/cel/meter"
)

// An equality is ==, or != if it is negated.
type equality struct {
	left, right node
	negated     bool
}

func (e *equality) eval(f *Frame) any {
	return e.compare(f, e.left.eval(f), e.right.eval(f))
}

func (e *equality) compare(f *Frame, left, right any) any {
	if isError(left) {
		return left
	}
	if isError(right) {
		return right
	}
	if equal, ok := equalTexts(f.meter, left, right); ok {
		return types.Bool(equal != e.negated)
	}
	if equal, ok := equalNatives(f.meter, left, right); ok {
		return types.Bool(equal != e.negated)
	}
	f.meter.Compare(left, right)
	equal := types.Equal(f.value(left), f.value(right))
	if e.negated {
		return types.Bool(equal != types.True)
	}
	return equal
}

// A textEquality compares with a constant text.
type textEquality struct {
	*equality

	text string
}

func (t *textEquality) eval(f *Frame) any {
	left := t.left.eval(f)
	if text, ok := textOf(left); ok {
		f.meter.Spend(int64(min(len(text), len(t.text)) / meter.Scanned))
		return types.Bool(text == t.text != t.negated)
	}
	return t.compare(f, left, types.String(t.text))
}

// equalTexts compares two texts.
func equalTexts(m *meter.Meter, left, right any) (equal, ok bool) {
	l, ok := textOf(left)
	if !ok {
		return false, false
	}
	r, ok := textOf(right)
	m.Spend(int64(min(len(l), len(r)) / meter.Scanned))
	return l == r, ok
}

// compareNanos is at least what it takes to compare two values without parts, besides the characters of
// texts.
const compareNanos = 20

// equalNatives compares values of decoded objects. The second result is false if one of them is no such
// value.
func equalNatives(m *meter.Meter, left, right any) (equal, ok bool) {
	m.Spend(compareNanos)
	switch l := left.(type) {
	case nil:
		return right == nil, isNative(right)
	case string:
		r, same := right.(string)
		m.Spend(int64(min(len(l), len(r)) / meter.Scanned))
		return same && l == r, isNative(right)
	case bool:
		r, same := right.(bool)
		return same && l == r, isNative(right)
	case int64:
		r, same := right.(int64)
		return same && l == r, same
	case float64:
		r, same := right.(float64)
		return same && l == r, same
	case []any:
		return equalLists(m, l, right)
	case map[string]any:
		return equalMaps(m, l, right)
	}
	return false, false
}

func equalLists(m *meter.Meter, l []any, right any) (equal, ok bool) {
	r, same := right.([]any)
	if !same {
		return false, isNative(right)
	}
	if len(l) != len(r) {
		return false, true
	}
	for i := range l {
		if equal, ok := equalNatives(m, l[i], r[i]); !ok || !equal {
			return false, ok
		}
	}
	return true, true
}

func equalMaps(m *meter.Meter, l map[string]any, right any) (equal, ok bool) {
	r, same := right.(map[string]any)
	if !same {
		return false, isNative(right)
	}
	if len(l) != len(r) {
		return false, true
	}
	known := true
	for key, value := range l {
		m.Spend(int64(len(key) / meter.Scanned))
		other, found := r[key]
		if !found {
			return false, true
		}
		switch equal, ok := equalNatives(m, value, other); {
		case !ok:
			known = false
		case !equal:
			return false, true
		}
	}
	return known, known
}

// A relation is <, <=, > or >=.
type relation struct {
	left, right node
	// less, same and more are the results.
	less, same, more types.Bool
	call             *call
}

func (r *relation) eval(f *Frame) any {
	left, right := r.left.eval(f), r.right.eval(f)
	switch l := left.(type) {
	case int64:
		if other, ok := integerOf(right); ok {
			return r.result(l < other, l > other)
		}
	case types.Int:
		if other, ok := integerOf(right); ok {
			return r.result(int64(l) < other, int64(l) > other)
		}
	case string, types.String:
		a, _ := textOf(left)
		if b, ok := textOf(right); ok {
			f.meter.Spend(int64(min(len(a), len(b)) / meter.Scanned))
			return r.result(a < b, a > b)
		}
	}
	return r.call.binary(f, f.value(left), f.value(right))
}

func (r *relation) result(less, more bool) any {
	switch {
	case less:
		return r.less
	case more:
		return r.more
	}
	return r.same
}

func integerOf(v any) (int64, bool) {
	switch i := v.(type) {
	case int64:
		return i, true
	case types.Int:
		return int64(i), true
	}
	return 0, false
}

// A membership is in.
type membership struct {
	item, of node
	call     *call
}

func (m *membership) eval(f *Frame) any {
	item, of := m.item.eval(f), m.of.eval(f)
	if text, ok := textOf(item); ok {
		f.meter.Spend(int64(len(text) / meter.Scanned))
		switch of := of.(type) {
		case map[string]any:
			_, found := of[text]
			return types.Bool(found)
		case []any:
			return hasText(f.meter, of, text)
		case native:
			_, found := of.Native()[text]
			return types.Bool(found)
		case listed:
			return hasText(f.meter, of.Items(), text)
		}
	}
	return m.call.binary(f, f.value(item), f.value(of))
}

func hasText(m *meter.Meter, items []any, text string) types.Bool {
	m.Spend(int64(len(items)) * int64(compareNanos+len(text)/meter.Scanned))
	for _, item := range items {
		if t, ok := textOf(item); ok && t == text {
			return types.True
		}
	}
	return types.False
}

// A textSet is membership in a constant list of texts.
type textSet struct {
	item  node
	texts []string
}

func (t *textSet) eval(f *Frame) any {
	item := t.item.eval(f)
	if text, ok := textOf(item); ok {
		f.meter.Spend(int64(len(text) / meter.Scanned))
		return types.Bool(slices.Contains(t.texts, text))
	}
	if isError(item) {
		return item
	}
	// A value that cannot be the key of a map panics here, as it does in cel-go.
	_, found := map[ref.Val]struct{}{types.String(""): {}}[f.value(item)]
	return types.Bool(found)
}

// A valueSet is membership in a constant list of scalars.
type valueSet struct {
	item   node
	values map[ref.Val]struct{}
}

func (s *valueSet) eval(f *Frame) any {
	item := f.value(s.item.eval(f))
	if isError(item) {
		return item
	}
	f.meter.Scan(item)
	_, found := s.values[item]
	return types.Bool(found)
}

// newValueSet returns the values that are in a list of scalars: a number is also in it as one of another
// type, if that is the same number. It is nil if the list has anything else.
func newValueSet(items []ref.Val) map[ref.Val]struct{} {
	set := map[ref.Val]struct{}{}
	for _, item := range items {
		if !types.IsPrimitiveType(item) || item.Type() == types.BytesType {
			return nil
		}
		set[item] = struct{}{}
		for _, t := range others(item) {
			converted := item.ConvertToType(t)
			if _, isDouble := item.(types.Double); types.IsError(converted) || isDouble && converted.Equal(item) != types.True {
				continue
			}
			set[converted] = struct{}{}
		}
	}
	return set
}

// others are the types of numbers that a number may also have.
func others(of ref.Val) []ref.Type {
	switch of.(type) {
	case types.Double:
		return []ref.Type{types.IntType, types.UintType}
	case types.Int:
		return []ref.Type{types.DoubleType, types.UintType}
	case types.Uint:
		return []ref.Type{types.DoubleType, types.IntType}
	}
	return nil
}

package apply

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"sigs.k8s.io/structured-merge-diff/v6/schema"
)

// lists merges the elements that have the same key. If that leaves the old elements where they
// are, the new ones are inserted; otherwise the list is replaced.
func (m *merge) lists(t *schema.List, old, set any) any {
	from, _ := old.([]any)
	with, _ := set.([]any)
	switch {
	case t.ElementRelationship == schema.Atomic || len(from) == 0 && len(with) == 0:
		return m.replace(old, set)
	case len(with) == 0:
		return old
	case from == nil:
		return m.replace(old, set)
	}
	before, err := m.index(t, from)
	if err != nil {
		m.err = err
		return old
	}
	after, err := m.index(t, with)
	if err != nil {
		m.err = err
		return old
	}
	order := interleave(before, after)
	recording := m.recording
	inPlace := keepsOrder(order, len(from))
	m.recording = recording && inPlace
	merged := m.elements(t, from, with, order)
	if m.recording = recording; !inPlace {
		m.record("replace", merged)
	}
	return merged
}

// An item is an element of the merged list: the indexes in the list of the object and in that of
// the configuration, or none. Several elements of the object with the key of the configuration's
// element are replaced by it.
type item struct{ old, set int }

const (
	none    = -1
	several = -2
)

// keepsOrder reports whether all n old elements are there, in their order.
func keepsOrder(order []item, n int) bool {
	next := 0
	for _, at := range order {
		switch at.old {
		case none:
		case next:
			next++
		default:
			return false
		}
	}
	return next == n
}

func (m *merge) elements(t *schema.List, from, with []any, order []item) []any {
	var merged []any
	if !m.recording {
		merged = make([]any, 0, len(order))
	}
	for i, at := range order {
		if m.recording && at.set == none {
			continue
		}
		m.path = append(m.path, strconv.Itoa(i))
		var element any
		switch {
		case at.set == none:
			element = from[at.old]
		case at.old < 0:
			element = with[at.set]
			m.record("add", element)
		default:
			element = m.both(t.ElementType, from[at.old], with[at.set])
		}
		if !m.recording {
			merged = append(merged, element)
		}
		m.path = m.path[:len(m.path)-1]
	}
	return merged
}

// An index has the keys of the elements of a list, and where each is.
type index struct {
	keys []any
	at   map[any]int
}

func (x *index) find(key any) int {
	if i, ok := x.at[key]; ok {
		return i
	}
	return none
}

func (m *merge) index(t *schema.List, list []any) (*index, error) {
	x := &index{keys: make([]any, len(list)), at: make(map[any]int, len(list))}
	for i, element := range list {
		key, err := m.key(t, element)
		if err != nil {
			return nil, fmt.Errorf("element %d: %w", i, err)
		}
		x.keys[i] = key
		if _, known := x.at[key]; known {
			i = several
		}
		x.at[key] = i
	}
	return x, nil
}

// interleave returns the elements of both lists in the order that upstream gives them: that of the
// configuration, with the other elements of the object where they were relative to those that
// both have. It follows visitListItems of sigs.k8s.io/structured-merge-diff step by step.
func interleave(before, after *index) []item {
	var shared []any
	for _, key := range after.keys {
		if before.find(key) != none {
			shared = append(shared, key)
		}
	}
	order := make([]item, 0, max(len(before.keys), len(after.keys)))
	merged := make(map[any]bool, len(after.keys))
	take := func(key any) {
		merged[key] = true
		order = append(order, item{before.find(key), after.find(key)})
	}
	for l, r := 0, 0; l < len(before.keys) || r < len(after.keys); {
		if l < len(before.keys) && r < len(after.keys) {
			key := before.keys[l]
			if key == after.keys[r] {
				take(key)
				l, r = l+1, r+1
				shared = rest(shared)
				continue
			}
			if after.find(key) != none && len(shared) > 0 && shared[0] != key {
				// It is in both, and not the next of these.
				l++
				continue
			}
		}
		if l < len(before.keys) {
			key := before.keys[l]
			if after.find(key) == none {
				order = append(order, item{l, none})
				l++
				continue
			}
			if merged[key] {
				l++
			}
		}
		if r < len(after.keys) {
			key := after.keys[r]
			take(key)
			r++
			if len(shared) > 0 && shared[0] == key {
				shared = rest(shared)
			}
		}
	}
	return order
}

func rest(keys []any) []any {
	if len(keys) == 0 {
		return nil
	}
	return keys[1:]
}

// key returns what an element is known by in its list: a comparable value.
func (m *merge) key(t *schema.List, element any) (any, error) {
	if len(t.Keys) == 0 {
		if !isScalar(element) || element == nil {
			return nil, errors.New("a set has an element that is no scalar")
		}
		return normal(element), nil
	}
	fields, ok := element.(map[string]any)
	if !ok {
		return nil, errors.New("associative list with keys may not have non-map elements")
	}
	values := make([]any, len(t.Keys))
	for i, name := range t.Keys {
		values[i] = m.keyField(t, fields, name)
	}
	switch {
	case !slices.ContainsFunc(values, func(v any) bool { return v != absent{} }):
		return nil, fmt.Errorf("associative list with keys has an element that omits all key fields %q (and doesn't have default values for any key fields)", t.Keys)
	case len(values) == 1:
		return values[0], nil
	case len(values) == 2:
		return [2]any{values[0], values[1]}, nil
	}
	return fmt.Sprintf("%#v", values), nil
}

// absent is a field of a key that an element lacks: another key than any value.
type absent struct{}

func (m *merge) keyField(t *schema.List, fields map[string]any, name string) any {
	if set, ok := fields[name]; ok {
		if !isScalar(set) {
			return fmt.Sprintf("%#v", set)
		}
		return normal(set)
	}
	if atom, ok := m.types.Resolve(t.ElementType); ok && atom.Map != nil {
		if field, _ := atom.Map.FindField(name); field.Default != nil {
			return normal(field.Default)
		}
	}
	return absent{}
}

// normal makes numbers equal that have the same value.
func normal(scalar any) any {
	switch n := scalar.(type) {
	case int:
		return int64(n)
	case float64:
		if i := int64(n); float64(i) == n {
			return i
		}
	}
	return scalar
}

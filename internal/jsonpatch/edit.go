package jsonpatch

import (
	"errors"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
)

// A change is what happens to one member of a container.
type change struct {
	kind  changeKind
	value any
}

type changeKind int

const (
	set    changeKind = iota // give the member the value
	insert                   // put the value in front of the element; only in arrays
	drop                     // take the member away
)

// owned records which containers were copied already and may be changed in place. A nil *owned owns
// nothing and records nothing.
type owned struct {
	copied   bool
	children map[string]*owned
}

func (o *owned) child(key string) *owned {
	if o == nil {
		return nil
	}
	c, ok := o.children[key]
	if !ok {
		if o.children == nil {
			o.children = map[string]*owned{}
		}
		c = &owned{}
		o.children[key] = c
	}
	return c
}

// take reports whether the container is owned already, and records it.
func (o *owned) take() bool {
	if o == nil {
		return false
	}
	was := o.copied
	o.copied = true
	return was
}

func (o *owned) forget(key string) {
	if o != nil {
		delete(o.children, key)
	}
}

func (o *owned) forgetAll() {
	if o != nil {
		o.children = nil
	}
}

// edit makes the change at the place that tokens lead to from node, which exists, and returns the
// new node.
func edit(node any, own *owned, tokens []string, c change) any {
	if array, ok := node.([]any); ok {
		return editArray(array, own, tokens, c)
	}
	object, _ := node.(map[string]any)
	if !own.take() {
		object = cloneMap(object)
	}
	key := tokens[0]
	switch {
	case len(tokens) > 1:
		object[key] = edit(object[key], own.child(key), tokens[1:], c)
	case c.kind == drop:
		own.forget(key)
		delete(object, key)
	default:
		own.forget(key)
		object[key] = c.value
	}
	return object
}

// mostTouched bounds how many elements and keys the operations of a patch move, copy or compare together:
// some tenths of a second.
const mostTouched = 1 << 26

var errTouched = errors.New("the operations of the patch change long lists or large objects too often")

// length is the number of elements and keys on the way to a place, which a change there may copy.
func length(node any, tokens []string) (n int) {
	for _, token := range tokens {
		switch v := node.(type) {
		case map[string]any:
			n, node = n+len(v), v[token]
		case []any:
			n += len(v)
			i, err := strconv.Atoi(token)
			if err != nil || i < 0 || i >= len(v) {
				return n
			}
			node = v[i]
		default:
			return n
		}
	}
	return n
}

// unowned is the number of elements and keys of the containers on the way to a place that a change there copies.
func unowned(node any, own *owned, tokens []string) int {
	for i, token := range tokens {
		if own == nil || !own.copied {
			return length(node, tokens[i:])
		}
		switch v := node.(type) {
		case map[string]any:
			node = v[token]
		case []any:
			at, err := strconv.Atoi(token)
			if err != nil || at < 0 || at >= len(v) {
				return 0
			}
			node = v[at]
		}
		own = own.children[token]
	}
	return 0
}

func editArray(array []any, own *owned, tokens []string, c change) any {
	if !own.take() {
		array = append(make([]any, 0, len(array)+1), array...)
	}
	key := tokens[0]
	i := len(array)
	if key != "-" {
		i, _ = strconv.Atoi(key)
	}
	switch {
	case len(tokens) > 1:
		array[i] = edit(array[i], own.child(key), tokens[1:], c)
		return array
	case c.kind == set:
		own.forget(key)
		array[i] = c.value
		return array
	case c.kind == drop:
		own.forgetAll()
		return slices.Delete(array, i, i+1)
	}
	own.forgetAll()
	return slices.Insert(array, i, c.value)
}

func cloneMap(m map[string]any) map[string]any {
	if m == nil {
		return map[string]any{}
	}
	return maps.Clone(m)
}

// equal compares JSON trees. Numbers are equal if their texts are: an integer equals a float that
// prints as the same integer.
func equal(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for key, value := range a {
			other, ok := b[key]
			if !ok || !equal(value, other) {
				return false
			}
		}
		return true
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, equal)
	case string, bool, nil:
		return a == b
	case int64:
		if f, ok := b.(float64); ok {
			return sameNumber(a, f)
		}
	case float64:
		switch b := b.(type) {
		case int64:
			return sameNumber(b, a)
		case float64:
			return a == b && math.Signbit(a) == math.Signbit(b)
		}
	}
	return reflect.DeepEqual(a, b)
}

func sameNumber(i int64, f float64) bool {
	return float64(i) == f && strconv.FormatFloat(f, 'f', -1, 64) == strconv.FormatInt(i, 10)
}

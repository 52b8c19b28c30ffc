package closure

import (
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/google/cel-go/common/types"
)

// An affix is startsWith, endsWith or contains.
type affix struct {
	text, part node
	has        func(text, part string) bool
	call       *call
}

// affixOf returns what a function of two texts does, by the ID of its overload.
func affixOf(overload string) func(text, part string) bool {
	switch overload {
	case "starts_with_string":
		return strings.HasPrefix
	case "ends_with_string":
		return strings.HasSuffix
	case "contains_string":
		return strings.Contains
	}
	return nil
}

func (a *affix) eval(f *Frame) any {
	text, part := a.text.eval(f), a.part.eval(f)
	if t, ok := textOf(text); ok {
		if p, ok := textOf(part); ok {
			return types.Bool(a.has(t, p))
		}
	}
	return a.call.binary(f.value(text), f.value(part))
}

// A match is matches with a constant expression.
type match struct {
	text       node
	expression *regexp.Regexp
}

func (m *match) eval(f *Frame) any {
	text := m.text.eval(f)
	if t, ok := textOf(text); ok {
		return types.Bool(m.expression.MatchString(t))
	}
	if isError(text) {
		return text
	}
	t, ok := f.value(text).Value().(string)
	if !ok {
		return types.NoSuchOverloadErr()
	}
	return types.Bool(m.expression.MatchString(t))
}

// A size is the size of a text, a list or a map.
type size struct {
	of   node
	call *call
}

func (s *size) eval(f *Frame) any {
	of := s.of.eval(f)
	switch v := of.(type) {
	case string:
		return types.Int(utf8.RuneCountInString(v))
	case types.String:
		return types.Int(utf8.RuneCountInString(string(v)))
	case []any:
		return types.Int(len(v))
	case map[string]any:
		return types.Int(len(v))
	}
	return s.call.apply(f, of)
}

// longestJoined is the length of the longest list that is made of two. Longer ones stay two: a policy
// could otherwise take memory that doubles with each variable.
const longestJoined = 64

// A sum is +.
type sum struct {
	left, right node
	call        *call
}

func (s *sum) eval(f *Frame) any {
	left, right := s.left.eval(f), s.right.eval(f)
	if l, ok := itemsOf(left); ok {
		if r, ok := itemsOf(right); ok {
			if joined, ok := join(left, right, l, r); ok {
				return joined
			}
		}
	}
	if l, ok := textOf(left); ok {
		if r, ok := textOf(right); ok {
			return l + r
		}
	}
	return s.call.binary(f.value(left), f.value(right))
}

func itemsOf(v any) ([]any, bool) {
	switch l := v.(type) {
	case []any:
		return l, true
	case listed:
		return l.Items(), true
	}
	return nil, false
}

// join returns two lists as one. One that is empty does not count.
func join(left, right any, l, r []any) (any, bool) {
	switch {
	case len(l) == 0:
		return right, true
	case len(r) == 0:
		return left, true
	case len(l)+len(r) > longestJoined || !allNative(l) || !allNative(r):
		return nil, false
	}
	joined := make([]any, 0, len(l)+len(r))
	return append(append(joined, l...), r...), true
}

func allNative(items []any) bool {
	for _, item := range items {
		if !isNative(item) {
			return false
		}
	}
	return true
}

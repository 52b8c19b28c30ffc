package closure

import (
	"io"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/google/cel-go/common/types"

	"github.com/usher-dev/usher/internal/lang/cel/meter"
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
			f.meter.Spend(int64(2 * (len(t) + len(p)) / meter.Scanned))
			return types.Bool(a.has(t, p))
		}
	}
	return a.call.binary(f, f.value(text), f.value(part))
}

// A match is matches with a constant expression.
type match struct {
	text       node
	expression *regexp.Regexp
	pattern    *meter.Pattern
}

func (m *match) eval(f *Frame) any {
	text := m.text.eval(f)
	if t, ok := textOf(text); ok {
		return m.matches(f, t)
	}
	if isError(text) {
		return text
	}
	t, ok := f.value(text).Value().(string)
	if !ok {
		return types.NoSuchOverloadErr()
	}
	return m.matches(f, t)
}

// longMatch is from when on a match is stopped when nothing is left, in nanoseconds.
const longMatch = 1_000_000

func (m *match) matches(f *Frame, text string) any {
	each := m.pattern.Nanos()
	if m.pattern.IsText() || each*int64(len(text)+1) < longMatch {
		f.meter.Find(m.pattern, text)
		return types.Bool(m.expression.MatchString(text))
	}
	return types.Bool(m.expression.MatchReader(&metered{strings.NewReader(text), f.meter, each}))
}

// A metered reader spends what a match takes for each character.
type metered struct {
	io.RuneReader

	meter *meter.Meter
	nanos int64
}

// ReadRune implements [io.RuneReader].
func (r *metered) ReadRune() (c rune, size int, err error) {
	r.meter.Spend(r.nanos)
	return r.RuneReader.ReadRune()
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
		f.meter.Spend(int64(len(v)))
		return types.Int(utf8.RuneCountInString(v))
	case types.String:
		f.meter.Spend(int64(len(v)))
		return types.Int(utf8.RuneCountInString(string(v)))
	case []any:
		return types.Int(len(v))
	case map[string]any:
		return types.Int(len(v))
	}
	return s.call.apply(f, of)
}

// A sum is +.
type sum struct {
	left, right node
	call        *call
}

func (s *sum) eval(f *Frame) any {
	left, right := s.left.eval(f), s.right.eval(f)
	if l, ok := itemsOf(left); ok {
		if r, ok := itemsOf(right); ok {
			if joined, ok := join(f, left, right, l, r); ok {
				return joined
			}
		}
	}
	if l, ok := textOf(left); ok {
		if r, ok := textOf(right); ok {
			f.meter.Call(0, int64(len(l)+len(r)))
			return l + r
		}
	}
	return s.call.binary(f, f.value(left), f.value(right))
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
func join(f *Frame, left, right any, l, r []any) (any, bool) {
	switch {
	case len(l) == 0:
		return right, true
	case len(r) == 0:
		return left, true
	case !allNative(l) || !allNative(r):
		return nil, false
	}
	f.meter.Take(int64(len(l)+len(r)) * meter.ItemBytes)
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

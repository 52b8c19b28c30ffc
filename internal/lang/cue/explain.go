package cue

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/usher-dev/usher/internal/rule"
)

// Explain implements [rule.Explainer]: it returns the values that the source reads. Those of the
// items of a list are one list.
func (p *Program) Explain(in *rule.Input) (rule.Reading, error) {
	params, err := p.params(in)
	if err != nil {
		return rule.Reading{}, err
	}
	var reading rule.Reading
	for _, path := range p.Reads() {
		found := []any{}
		each := false
		param, rest := firstKey(strings.TrimSuffix(path, ".*"))
		if from, ok := params.Get(param); ok {
			each = lookUp(from, rest, func(value any) { found = append(found, value) })
		}
		value := rule.Value{Name: path}
		switch {
		case len(found) == 0:
			value.Absent = true
		case each:
			value.Value = found
		default:
			value.Value = found[0]
		}
		reading.Values = append(reading.Values, value)
	}
	return reading, nil
}

// lookUp yields the values at a path as Reads writes it, and reports whether the path leads to
// every item of a list or map.
func lookUp(from any, path string, yield func(any)) (each bool) {
	if path == "" {
		yield(from)
		return false
	}
	if rest, ok := strings.CutPrefix(path, "[]"); ok {
		for _, item := range members(from) {
			lookUp(item, rest, yield)
		}
		return true
	}
	key, rest := firstKey(path)
	switch from := from.(type) {
	case map[string]any:
		if value, ok := from[key]; ok {
			return lookUp(value, rest, yield)
		}
	case []any:
		if i, err := strconv.Atoi(key); err == nil && i < len(from) {
			return lookUp(from[i], rest, yield)
		}
	}
	return false
}

// firstKey splits a path such as a.b, .a.b, ["x/y"].b or [1].b behind its first key.
func firstKey(path string) (key, rest string) {
	if quoted, err := strconv.QuotedPrefix(strings.TrimPrefix(path, "[")); err == nil {
		key, _ = strconv.Unquote(quoted)
		return key, path[len("[")+len(quoted)+len("]"):]
	}
	if index, ok := strings.CutPrefix(path, "["); ok {
		key, rest, _ = strings.Cut(index, "]")
		return key, rest
	}
	path = strings.TrimPrefix(path, ".")
	if end := strings.IndexAny(path, ".["); end >= 0 {
		return path[:end], path[end:]
	}
	return path, ""
}

// members are the items of a list, or the values of a map in the order of its keys.
func members(of any) []any {
	switch of := of.(type) {
	case []any:
		return of
	case map[string]any:
		values := make([]any, 0, len(of))
		for _, key := range slices.Sorted(maps.Keys(of)) {
			values = append(values, of[key])
		}
		return values
	}
	return nil
}

package interpret

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

func anys(texts []string) []any {
	all := make([]any, len(texts))
	for i := range texts {
		all[i] = texts[i]
	}
	return all
}

// longest is how long a text may become, in bytes.
const longest = 1 << 20

func bounded(text string) (any, error) {
	if len(text) > longest {
		return nil, fmt.Errorf("a text is longer than %d bytes", longest)
	}
	return text, nil
}

func length(v any) (any, error) {
	switch v := v.(type) {
	case string:
		return float64(len([]rune(v))), nil
	case []any:
		return float64(len(v)), nil
	case map[string]any:
		return float64(len(v)), nil
	}
	return nil, nil
}

func keysOf(v any) (any, error) {
	fields, _ := v.(map[string]any)
	return anys(slices.Sorted(maps.Keys(fields))), nil
}

func valuesOf(v any) (any, error) {
	fields, _ := v.(map[string]any)
	return values(fields), nil
}

func values(fields map[string]any) []any {
	all := []any{}
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		all = append(all, fields[key])
	}
	return all
}

func text(v any) (any, error) {
	if s, ok := v.(string); ok {
		return s, nil
	}
	raw, err := json.Marshal(v)
	return string(raw), err
}

func toNumber(v any) (any, error) {
	switch v := v.(type) {
	case float64:
		return v, nil
	case string:
		if n, err := strconv.ParseFloat(v, 64); err == nil {
			return n, nil
		}
	}
	return nil, nil
}

func toArray(v any) (any, error) {
	if items, ok := v.([]any); ok {
		return items, nil
	}
	return []any{v}, nil
}

func reversed(v any) (any, error) {
	if s, ok := v.(string); ok {
		runes := []rune(s)
		slices.Reverse(runes)
		return string(runes), nil
	}
	items, _ := v.([]any)
	items = slices.Clone(items)
	slices.Reverse(items)
	return items, nil
}

// alike says that all elements are texts, or all numbers.
func alike(items []any) error {
	for _, item := range items {
		if kind := kindOf(item); kind != kindOf(items[0]) || kind != "string" && kind != "number" {
			return errors.New("expected a list of texts, or of numbers")
		}
	}
	return nil
}

func sortedList(v any) (any, error) {
	items, _ := v.([]any)
	if err := alike(items); err != nil {
		return nil, err
	}
	items = slices.Clone(items)
	slices.SortStableFunc(items, compareScalars)
	return items, nil
}

func extreme(v any, direction int) (any, error) {
	items, _ := v.([]any)
	if err := alike(items); err != nil || len(items) == 0 {
		return nil, err
	}
	best := items[0]
	for _, item := range items[1:] {
		if compareScalars(item, best) == direction {
			best = item
		}
	}
	return best, nil
}

func contains(a []any) (any, error) {
	if s, ok := a[0].(string); ok {
		part, ok := a[1].(string)
		return ok && strings.Contains(s, part), nil
	}
	items, _ := a[0].([]any)
	return slices.ContainsFunc(items, func(item any) bool {
		kind := kindOf(item)
		return kind != "array" && kind != "object" && reflect.DeepEqual(item, a[1])
	}), nil
}

func join(a []any) (any, error) {
	items, _ := a[1].([]any)
	texts := make([]string, len(items))
	for i := range items {
		var ok bool
		if texts[i], ok = items[i].(string); !ok {
			return nil, errors.New("expected a list of texts")
		}
	}
	separator, _ := a[0].(string)
	return bounded(strings.Join(texts, separator))
}

func notNull(a []any) (any, error) {
	for _, v := range a {
		if v != nil {
			return v, nil
		}
	}
	return nil, nil
}

func merge(a []any) (any, error) {
	all := map[string]any{}
	for _, v := range a {
		fields, _ := v.(map[string]any)
		maps.Copy(all, fields)
	}
	return all, nil
}

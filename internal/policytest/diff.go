package policytest

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/usher-dev/usher/internal/printable"
)

// diffTrees lists the differences between got and want, one line each:
//
//	/metadata/labels/team: expected "red", got "blue"
func diffTrees(path string, want, got any) []string {
	switch w := want.(type) {
	case map[string]any:
		if g, ok := got.(map[string]any); ok {
			return diffMaps(path, w, g)
		}
	case []any:
		if g, ok := got.([]any); ok {
			return diffLists(path, w, g)
		}
	}
	if equalScalars(want, got) {
		return nil
	}
	return []string{fmt.Sprintf("%s: expected %s, got %s", place(path), text(want), text(got))}
}

func diffMaps(path string, want, got map[string]any) []string {
	var lines []string
	keys := maps.Clone(want)
	maps.Copy(keys, got)
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		below := path + "/" + escape(key)
		w, wanted := want[key]
		g, present := got[key]
		switch {
		case !present:
			lines = append(lines, fmt.Sprintf("%s: expected %s, is absent", below, text(w)))
		case !wanted:
			lines = append(lines, fmt.Sprintf("%s: expected to be absent, got %s", below, text(g)))
		default:
			lines = append(lines, diffTrees(below, w, g)...)
		}
	}
	return lines
}

func diffLists(path string, want, got []any) []string {
	if len(want) != len(got) {
		return []string{fmt.Sprintf("%s: expected %d items, got %d: expected %s, got %s",
			place(path), len(want), len(got), text(want), text(got))}
	}
	var lines []string
	for i := range want {
		lines = append(lines, diffTrees(path+"/"+strconv.Itoa(i), want[i], got[i])...)
	}
	return lines
}

// equalScalars compares numbers by value: 2 and 2.0 are the same JSON number.
func equalScalars(a, b any) bool {
	if a, ok := a.(int64); ok {
		if b, ok := b.(int64); ok {
			return a == b
		}
	}
	if a, ok := number(a); ok {
		b, ok := number(b)
		return ok && a == b
	}
	switch a.(type) {
	case nil, string, bool:
		return a == b
	}
	return false
}

func number(value any) (float64, bool) {
	switch v := value.(type) {
	case int64:
		return float64(v), true
	case float64:
		return v, true
	}
	return 0, false
}

// lookup follows a JSON pointer.
func lookup(tree any, pointer string) (any, bool) {
	if pointer == "" {
		return tree, true
	}
	for token := range strings.SplitSeq(pointer[1:], "/") {
		token = strings.NewReplacer("~1", "/", "~0", "~").Replace(token)
		switch t := tree.(type) {
		case map[string]any:
			value, ok := t[token]
			if !ok {
				return nil, false
			}
			tree = value
		case []any:
			i, err := strconv.Atoi(token)
			if err != nil || i < 0 || i >= len(t) {
				return nil, false
			}
			tree = t[i]
		default:
			return nil, false
		}
	}
	return tree, true
}

func escape(key string) string { return strings.NewReplacer("~", "~0", "/", "~1").Replace(key) }

func place(path string) string {
	if path == "" {
		return "the object"
	}
	return path
}

// text is a value as JSON, cut to a readable length.
func text(value any) string {
	const limit = 303
	return printable.Cut(jsonOf(value), limit)
}

// jsonOf returns the JSON of a value.
func jsonOf(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	return string(text)
}

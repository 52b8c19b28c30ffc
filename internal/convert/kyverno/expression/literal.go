package expression

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// quote writes a text in CEL.
func quote(text string) string {
	if strings.Contains(text, `\`) && !strings.ContainsAny(text, "'\n\r\t") && strconv.CanBackquote(text+"") {
		return "r'" + text + "'"
	}
	quoted := strconv.Quote(strings.ToValidUTF8(text, "\uFFFD"))
	inside := strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
	return "'" + strings.ReplaceAll(inside, "'", `\'`) + "'"
}

// literal writes a value of JSON in CEL.
func literal(of any) string {
	switch v := of.(type) {
	case nil:
		return "null"
	case string:
		return quote(v)
	case bool:
		return strconv.FormatBool(v)
	case int64:
		return strconv.FormatInt(v, 10)
	case float64:
		if v == float64(int64(v)) && v < 1e15 && v > -1e15 {
			return strconv.FormatInt(int64(v), 10)
		}
		text := strconv.FormatFloat(v, 'g', -1, 64)
		if !strings.ContainsAny(text, ".e") {
			text += ".0"
		}
		return text
	case []any:
		items := make([]string, len(v))
		for i, item := range v {
			items[i] = wrapped(item, !sameKinds(v))
		}
		return "[" + strings.Join(items, ", ") + "]"
	case map[string]any:
		values := slices.Collect(maps.Values(v))
		entries := make([]string, 0, len(v))
		for _, key := range slices.Sorted(maps.Keys(v)) {
			entries = append(entries, quote(key)+": "+wrapped(v[key], !sameKinds(values)))
		}
		return "{" + strings.Join(entries, ", ") + "}"
	}
	return "null"
}

// wrapped writes an element of a list or a map, whose elements have to have one type.
func wrapped(of any, mixed bool) string {
	if mixed {
		return "dyn(" + literal(of) + ")"
	}
	return literal(of)
}

func sameKinds(values []any) bool {
	for _, v := range values {
		first := Constant(values[0]).Type
		if c := Constant(v).Type; c.Kind != first.Kind || c.Kind == Any || c.Kind == List || c.Kind == Map {
			return len(values) == 1
		}
	}
	return true
}

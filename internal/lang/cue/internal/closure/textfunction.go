package closure

import (
	"math"
	"strings"
)

// textFunction returns a function of package strings.
func textFunction(name string) function {
	if f, ok := map[string]func(string) string{
		"strings.ToLower": strings.ToLower, "strings.ToUpper": strings.ToUpper, "strings.TrimSpace": strings.TrimSpace,
	}[name]; ok {
		return func(m *machine, args []any) (any, status) {
			text, ok := one[string](args)
			if !ok || !m.spend(len(text)/16) {
				return nil, unclear
			}
			return f(text), known
		}
	}
	if f, ok := map[string]func(a, b string) any{
		"strings.HasPrefix":   func(a, b string) any { return strings.HasPrefix(a, b) },
		"strings.HasSuffix":   func(a, b string) any { return strings.HasSuffix(a, b) },
		"strings.Contains":    func(a, b string) any { return strings.Contains(a, b) },
		"strings.ContainsAny": func(a, b string) any { return strings.ContainsAny(a, b) },
		"strings.Count":       func(a, b string) any { return int64(strings.Count(a, b)) },
		"strings.Index":       func(a, b string) any { return int64(strings.Index(a, b)) },
		"strings.LastIndex":   func(a, b string) any { return int64(strings.LastIndex(a, b)) },
		"strings.TrimPrefix":  func(a, b string) any { return strings.TrimPrefix(a, b) },
		"strings.TrimSuffix":  func(a, b string) any { return strings.TrimSuffix(a, b) },
		"strings.Trim":        func(a, b string) any { return strings.Trim(a, b) },
		"strings.TrimLeft":    func(a, b string) any { return strings.TrimLeft(a, b) },
		"strings.TrimRight":   func(a, b string) any { return strings.TrimRight(a, b) },
	}[name]; ok {
		return func(m *machine, args []any) (any, status) {
			a, b, ok := two[string, string](args)
			if !ok || !m.spend((len(a)+len(b))/16) {
				return nil, unclear
			}
			return f(a, b), known
		}
	}
	switch name {
	case "strings.Split":
		return func(m *machine, args []any) (any, status) {
			text, by, ok := two[string, string](args)
			if !ok || !m.spend(len(text)/16+4*strings.Count(text, by)) {
				return nil, unclear
			}
			return m.texts(strings.Split(text, by))
		}
	case "strings.Fields":
		return func(m *machine, args []any) (any, status) {
			text, ok := one[string](args)
			if !ok || !m.spend(len(text)) {
				return nil, unclear
			}
			return m.texts(strings.Fields(text))
		}
	case "strings.Join":
		return join
	case "strings.Replace":
		return replace
	}
	return nil
}

// texts returns a list of texts.
func (m *machine) texts(texts []string) (any, status) {
	if !m.spend(len(texts)) {
		return nil, unclear
	}
	list := make([]any, len(texts))
	for i, text := range texts {
		list[i] = text
	}
	return list, known
}

func join(m *machine, args []any) (any, status) {
	list, by, ok := two[[]any, string](args)
	if !ok {
		return nil, unclear
	}
	texts := make([]string, len(list))
	length := 0
	for i, v := range list {
		text, ok := v.(string)
		if !ok {
			return nil, unclear
		}
		texts[i] = text
		length += len(text) + len(by)
	}
	if !m.spend(length / 16) {
		return nil, unclear
	}
	return strings.Join(texts, by), known
}

func replace(m *machine, args []any) (any, status) {
	if len(args) != 4 {
		return nil, unclear
	}
	text, old, ok := two[string, string](args[:2])
	by, n, found := two[string, int64](args[2:])
	if !ok || !found || n < math.MinInt32 || n > math.MaxInt32 {
		return nil, unclear
	}
	if !m.spend((len(text) + strings.Count(text, old)*len(by)) / 16) {
		return nil, unclear
	}
	return strings.Replace(text, old, by, int(n)), known
}

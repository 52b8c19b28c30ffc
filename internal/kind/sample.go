package kind

import (
	"slices"
)

// A Sampling configures samples. Samples of the zero Sampling have every field, with arbitrary values.
type Sampling struct {
	// Keys returns the additional keys of a map; nil means none.
	Keys func(path []string) []string
	// Value returns the value at a path; nil, or false, means a value from the schema.
	Value func(path []string) (any, bool)
	// Alone, if not zero, gives each object only one optional member that is an object or a list, the
	// Alone-th of them, because members may exclude one another.
	Alone int
	// Least has only what is required.
	Least bool
}

// most limits the number of values of one sample, and deepest its depth.
const (
	most    = 20_000
	deepest = 40
)

// A sampler creates one sample.
type sampler struct {
	Sampling

	set   *Set
	above []string
	left  int
}

// Sample returns a value of a schema, as JSON.
func (s *Set) Sample(of *Schema, o Sampling) any {
	m := sampler{Sampling: o, set: s, left: most}
	return m.value(of, nil)
}

func (m *sampler) value(of *Schema, path []string) any {
	name := ""
	if of != nil && (of.Ref != "" || len(of.AllOf) == 1) {
		name = of.Ref
		if name == "" {
			name = of.AllOf[0].Ref
		}
	}
	resolved := m.set.Resolve(of)
	// For recursive schemas, create one level.
	if m.left--; resolved == nil || m.left < 0 || len(path) > deepest || name != "" && slices.Contains(m.above, name) {
		return map[string]any{}
	}
	if name != "" {
		m.above = append(m.above, name)
		defer func() { m.above = m.above[:len(m.above)-1] }()
	}
	if m.Value != nil {
		if v, ok := m.Value(path); ok {
			return v
		}
	}
	switch resolved.Kind() {
	case Object:
		return m.object(resolved, path)
	case Map:
		return m.entries(resolved, path)
	case List:
		return []any{m.value(resolved.Items, append(slices.Clip(path), "[]"))}
	default:
		return scalar(resolved)
	}
}

func (m *sampler) object(of *Schema, path []string) map[string]any {
	object := map[string]any{}
	var members []string
	for name := range of.Properties {
		next := append(slices.Clip(path), name)
		required := slices.Contains(of.Required, name)
		if skipped(next) || m.Least && !required {
			continue
		}
		if m.Alone > 0 && !required && len(path) > 0 && m.isMember(of.Properties[name]) {
			members = append(members, name)
			continue
		}
		object[name] = m.value(of.Properties[name], next)
	}
	if len(members) > 0 {
		slices.Sort(members)
		name := members[(m.Alone-1)%len(members)]
		object[name] = m.value(of.Properties[name], append(slices.Clip(path), name))
	}
	return object
}

// isMember reports whether a field may exclude others: members of unions are objects.
func (m *sampler) isMember(of *Schema) bool {
	resolved := m.set.Resolve(of)
	return resolved != nil && resolved.Kind() == Object
}

// skipped reports whether users do not write a field.
func skipped(path []string) bool {
	return len(path) > 1 && path[len(path)-2] == "metadata" && path[len(path)-1] == "managedFields"
}

func (m *sampler) entries(of *Schema, path []string) map[string]any {
	object := map[string]any{}
	if m.Least {
		return object
	}
	var values *Schema
	if of.Values != nil {
		values = of.Values.Schema
	}
	var keys []string
	if m.Keys != nil {
		keys = m.Keys(path)
	}
	if resolved := m.set.Resolve(values); resolved != nil && resolved.Kind() == Quantity {
		keys = append(keys, "cpu", "memory", "ephemeral-storage", "storage")
	}
	if len(keys) == 0 && values != nil {
		keys = []string{"x"}
	}
	for _, key := range keys {
		next := append(slices.Clip(path), key)
		if values != nil {
			object[key] = m.value(values, next)
			continue
		}
		object[key] = "x"
		if m.Value != nil {
			if v, ok := m.Value(next); ok {
				object[key] = v
			}
		}
	}
	return object
}

func scalar(of *Schema) any {
	if len(of.Enum) > 0 {
		return of.Enum[0]
	}
	switch of.Kind() {
	case Bool:
		return true
	case Integer, Either:
		return int64(1)
	case Quantity:
		return "1"
	case Number:
		return 1.5
	case Text:
		switch of.Format {
		case "date-time":
			return "1970-01-01T00:00:00Z"
		case "byte":
			return "eA=="
		}
		return "x"
	default:
		return map[string]any{}
	}
}

// Members counts the optional members of a schema of which samples with [Sampling.Alone] have one.
func (s *Set) Members(of *Schema) int {
	m := sampler{set: s}
	n := 0
	for name, field := range of.Properties {
		if !slices.Contains(of.Required, name) && m.isMember(field) {
			n++
		}
	}
	return n
}

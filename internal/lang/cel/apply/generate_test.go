package apply_test

import (
	"math/rand/v2"
	"strconv"

	kinds "k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/structured-merge-diff/v6/schema"
)

// A generator makes up objects by their structure, with few different values, so that keys meet.
type generator struct {
	*rand.Rand

	types *schema.Schema
	// mistakes is how many of a thousand values are not what the structure says.
	mistakes int
	// atomics is how many of a hundred lists and maps that are replaced as a whole are there.
	atomics int
	// nulls is how many of a thousand values are null, which is a value of every type.
	nulls int
	// duplicates is how many of a hundred elements of lists with keys are there twice.
	duplicates int
}

// value returns a value of a type, and whether there is one.
func (g *generator) value(ref schema.TypeRef, depth int) (any, bool) {
	atom, ok := g.types.Resolve(ref)
	if !ok {
		return nil, false
	}
	if g.IntN(1000) < g.mistakes {
		return g.mistake(), true
	}
	if g.IntN(1000) < g.nulls {
		return nil, true
	}
	var choices []func() (any, bool)
	if atom.Scalar != nil {
		choices = append(choices, func() (any, bool) { return g.scalar(*atom.Scalar), true })
	}
	if atom.List != nil && depth > 0 {
		choices = append(choices, func() (any, bool) { return g.list(atom.List, depth-1) })
	}
	if atom.Map != nil && depth > 0 {
		choices = append(choices, func() (any, bool) { return g.object(atom.Map, depth-1) })
	}
	if len(choices) == 0 {
		return nil, false
	}
	return choices[g.IntN(len(choices))]()
}

func (g *generator) mistake() any {
	return []any{nil, "text", int64(7), 0.5, true, map[string]any{}, map[string]any{"a": "b"}, []any{}, []any{"a", "b"}, []any{nil}}[g.IntN(10)]
}

func (g *generator) scalar(kind schema.Scalar) any {
	switch kind {
	case schema.Numeric:
		return []any{int64(0), int64(1), int64(2), 1.0, 1.5}[g.IntN(5)]
	case schema.Boolean:
		return g.IntN(2) == 0
	case schema.Untyped:
		return []any{"a", int64(1), 0.5, true}[g.IntN(4)]
	}
	return string(rune('a' + g.IntN(4)))
}

func (g *generator) object(t *schema.Map, depth int) (any, bool) {
	if t.ElementRelationship == schema.Atomic && g.IntN(100) >= g.atomics {
		return nil, false
	}
	object := map[string]any{}
	for _, field := range t.Fields {
		if g.IntN(len(t.Fields)+4) > 5 {
			continue
		}
		if v, ok := g.value(field.Type, depth); ok {
			object[field.Name] = v
		}
	}
	if t.ElementType.NamedType != nil || t.ElementType.Inlined != (schema.Atom{}) {
		for range g.IntN(4) {
			if v, ok := g.value(t.ElementType, depth); ok {
				object[g.name()] = v
			}
		}
	}
	if g.IntN(1000) < g.mistakes {
		object["unknown"] = g.mistake()
	}
	return object, true
}

// name is a key of a map, which may be one that a pointer has to escape.
func (g *generator) name() string { return []string{"a", "b", "c", "d/e~f", ""}[g.IntN(5)] }

func (g *generator) list(t *schema.List, depth int) (any, bool) {
	if t.ElementRelationship == schema.Atomic && g.IntN(100) >= g.atomics {
		return nil, false
	}
	list := []any{}
	for range g.IntN(6) {
		v, ok := g.value(t.ElementType, depth)
		if !ok {
			return nil, false
		}
		g.complete(t, v)
		if t.ElementRelationship == schema.Associative && g.IntN(100) >= g.duplicates && g.known(t, list, v) {
			continue
		}
		list = append(list, v)
	}
	return list, true
}

// complete gives an element the fields of its key, most of the time.
func (g *generator) complete(t *schema.List, element any) {
	fields, ok := element.(map[string]any)
	atom, _ := g.types.Resolve(t.ElementType)
	if !ok || atom.Map == nil {
		return
	}
	for i, name := range t.Keys {
		field, known := atom.Map.FindField(name)
		if _, set := fields[name]; set || !known || i > 0 && g.IntN(4) == 0 || g.IntN(1000) < g.mistakes {
			continue
		}
		if v, ok := g.value(field.Type, 1); ok {
			fields[name] = v
		}
	}
}

// known reports whether a list has an element with the key of another one, roughly.
func (g *generator) known(t *schema.List, list []any, element any) bool {
	key := func(v any) string {
		fields, ok := v.(map[string]any)
		if !ok {
			return text(v)
		}
		all := ""
		for _, name := range t.Keys {
			set, ok := fields[name]
			if !ok {
				atom, _ := g.types.Resolve(t.ElementType)
				field, _ := atom.Map.FindField(name)
				set = field.Default
			}
			all += text(set) + "|"
		}
		return all
	}
	for _, other := range list {
		if key(other) == key(element) {
			return true
		}
	}
	return false
}

func text(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case string:
		return "s" + v
	case bool:
		return strconv.FormatBool(v)
	case int64:
		return strconv.FormatFloat(float64(v), 'g', -1, 64)
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64)
	}
	return "other"
}

// whole returns an object of a kind.
func (g *generator) whole(root *string, kind kinds.GroupVersionKind) map[string]any {
	atom, _ := g.types.Resolve(schema.TypeRef{NamedType: root})
	made, _ := g.object(atom.Map, 9)
	object, _ := made.(map[string]any)
	object["apiVersion"], object["kind"] = kind.ToAPIVersionAndKind()
	return object
}

package trial

import (
	"maps"
	"slices"
	"strings"

	"github.com/usher-dev/usher/internal/rule"
)

// variants returns full objects that differ: those with the i-th choices everywhere, and those with one
// member of each union.
func (m *maker) variants() []map[string]any {
	full := m.full()
	all := []map[string]any{full}
	deepest := 0
	for _, values := range m.choices {
		deepest = max(deepest, len(values))
	}
	for i := 1; i < deepest && len(all) < mostVariants/2; i++ {
		variant := full
		for key, values := range m.choices {
			variant = with(variant, strings.Split(key, separator), values[i%len(values)])
		}
		all = append(all, variant)
	}
	members := m.members()
	for i := 1; i <= members && len(all) < mostVariants; i++ {
		all = append(all, m.sample(i))
	}
	return all
}

// A deviation is an object in which one field has another value.
type deviation struct {
	at     path
	value  any
	object map[string]any
}

// deviations returns objects that differ from an object in one field.
func (m *maker) deviations(base map[string]any) []deviation {
	var all []deviation
	for _, key := range slices.Sorted(maps.Keys(m.choices)) {
		at := strings.Split(key, separator)
		for _, value := range m.choices[key] {
			// The kind of an object is that of the request.
			if len(all) < mostVariants && (len(at) > 1 || !path(at).isIdentity()) {
				all = append(all, deviation{at, value, with(base, at, value)})
			}
		}
	}
	return all
}

// members returns the number of members of the largest object of which the rule reads fields.
func (m *maker) members() int {
	most := 0
	for i := range m.uses {
		for _, p := range m.uses[i].Paths {
			for end := 1; end < len(p); end++ {
				if at := m.set.Follow(m.like, p[:end]).At; at != nil && m.of.Kind != "" {
					most = max(most, m.set.Members(at))
				}
			}
		}
	}
	return most
}

// mostOptional limits the number of fields that are removed, one at a time.
const mostOptional = 60

// optional returns the fields of full that the policy names and least does not have, the deepest
// first.
func (m *maker) optional(least, full map[string]any) []path {
	var all []path
	var walk func(at path, least, full any)
	walk = func(at path, least, full any) {
		switch full := full.(type) {
		case map[string]any:
			object, _ := least.(map[string]any)
			for _, name := range slices.Sorted(maps.Keys(full)) {
				has, there := object[name]
				if !there && strings.HasSuffix(name, "Containers") {
					// Their elements have the fields of containers.
					has = object["containers"]
				}
				next := append(slices.Clone(at), name)
				walk(next, has, full[name])
				if !there && !m.required(next) && len(all) < mostOptional && m.named(next) && !next.isIdentity() {
					all = append(all, next)
				}
			}
		case []any:
			list, _ := least.([]any)
			var has any
			if len(list) > 0 {
				has = list[0]
			}
			if len(full) > 0 {
				walk(append(slices.Clone(at), rule.Element), has, full[0])
			}
		}
	}
	walk(nil, least, full)
	return all
}

// named reports whether the policy names a field.
func (m *maker) named(p path) bool {
	return m.words.fields[p[len(p)-1]] || p.isKey() || m.owned && len(p) == 2 && p[0] == "metadata" && p[1] == "ownerReferences"
}

// required reports whether the field at p exists whenever its parent does.
func (m *maker) required(p path) bool {
	parent := m.set.Follow(m.like, p[:len(p)-1]).At
	return parent != nil && slices.Contains(parent.Required, p[len(p)-1])
}

// without returns a copy of an object without a field.
func without(tree map[string]any, p path) map[string]any {
	changed, _ := edit(tree, p, func(object map[string]any, name string) { delete(object, name) }).(map[string]any)
	return changed
}

// with returns a copy of an object in which a field has a value, if its parent exists.
func with(tree map[string]any, p path, value any) map[string]any {
	changed, _ := edit(tree, p, func(object map[string]any, name string) { object[name] = value }).(map[string]any)
	return changed
}

// edit returns a copy of a tree in which the field at p is changed, in all elements of lists.
func edit(tree any, p path, change func(object map[string]any, name string)) any {
	if len(p) == 0 {
		return tree
	}
	switch v := tree.(type) {
	case map[string]any:
		object := maps.Clone(v)
		if len(p) == 1 {
			change(object, p[0])
		} else if inner, ok := object[p[0]]; ok {
			object[p[0]] = edit(inner, p[1:], change)
		}
		return object
	case []any:
		list := slices.Clone(v)
		for i := range list {
			list[i] = edit(list[i], p[1:], change)
		}
		return list
	}
	return tree
}

package interpret

import (
	"maps"
	"slices"

	"github.com/usher-dev/usher/internal/convert/kyverno/syntax"
)

// An outcome of a part of a pattern.
type outcome int

const (
	fits outcome = iota
	differs
	// forbidden is a key that must not exist.
	forbidden
	// skips is a condition that does not hold here; skipsBelow, one of a map or list below.
	skips
	skipsBelow
	// unknown differs where nothing says at which place.
	unknown
)

func (o outcome) skip() bool { return o == skips || o == skipsBelow }

// A matcher matches one pattern. It knows which keys with anchors it has seen in the object.
type matcher struct{ seen map[string]bool }

// matches returns the status of an object for a pattern.
func matches(object any, pattern *syntax.Pattern) Status {
	m := matcher{seen: map[string]bool{}}
	switch o := m.value(object, pattern); {
	case o == fits:
		return Pass
	case o.skip():
		return Skip
	case o == forbidden:
		return Fail
	case o == unknown || m.missing():
		return Error
	default:
		return Fail
	}
}

// missing says that a key with an anchor was never there.
func (m *matcher) missing() bool {
	for _, seen := range m.seen {
		if !seen {
			return true
		}
	}
	return false
}

func (m *matcher) value(value any, pattern *syntax.Pattern) outcome {
	switch pattern.Sort {
	case syntax.Map:
		fields, ok := value.(map[string]any)
		if !ok {
			return differs
		}
		for _, key := range pattern.Keys {
			if key.Anchor == syntax.Conditional || key.Anchor == syntax.Existence {
				_, ok := fields[key.Name]
				m.seen[key.Text] = m.seen[key.Text] || ok
			}
		}
		return m.fields(fields, expanded(pattern, fields))
	case syntax.List:
		items, ok := value.([]any)
		if !ok || len(pattern.Items) == 0 {
			return differs
		}
		return m.items(items, pattern)
	default:
		items, ok := value.([]any)
		if !ok {
			items = []any{value}
		}
		for _, item := range items {
			if !leaf(item, pattern.Scalar) {
				return differs
			}
		}
		return fits
	}
}

// fields matches the keys of a map: those with anchors first, and then the others.
func (m *matcher) fields(fields map[string]any, pattern *syntax.Pattern) outcome {
	applied, skipped, here := 0, false, false
	var others []syntax.Key
	for _, key := range pattern.Keys {
		switch key.Anchor {
		case syntax.Conditional, syntax.Existence, syntax.Equality, syntax.Negation:
		default:
			others = append(others, key)
			continue
		}
		o := m.key(fields, key)
		switch {
		case o.skip():
			skipped, here = true, here || o == skips
		case o == fits:
			applied++
		case !here:
			return o
		}
	}
	if skipped && (applied == 0 || here) {
		return skipsBelow
	}
	for _, key := range sorted(others) {
		if o := m.key(fields, key); o != fits {
			return o
		}
	}
	return fits
}

// sorted returns keys with global conditions, or with anchors below, in reverse order before the others.
func sorted(keys []syntax.Key) []syntax.Key {
	var first, last []syntax.Key
	for _, key := range keys {
		if key.Anchor == syntax.Global || anchored(key.Value) {
			first = append(first, key)
		} else {
			last = append(last, key)
		}
	}
	slices.Reverse(first)
	return append(first, last...)
}

func anchored(pattern *syntax.Pattern) bool {
	for _, key := range pattern.Keys {
		if key.Anchor != syntax.NoAnchor && key.Anchor != syntax.AddIfAbsent || anchored(key.Value) {
			return true
		}
	}
	return slices.ContainsFunc(pattern.Items, anchored)
}

func (m *matcher) key(fields map[string]any, key syntax.Key) outcome {
	value, exists := fields[key.Name]
	switch key.Anchor {
	case syntax.Negation:
		if exists {
			return forbidden
		}
		return fits
	case syntax.Equality:
		if !exists {
			return fits
		}
		return m.value(value, key.Value)
	case syntax.Conditional:
		if !exists || m.value(value, key.Value) != fits {
			return skips
		}
		return fits
	case syntax.Global:
		if exists && m.value(value, key.Value) != fits {
			return skips
		}
		return fits
	case syntax.Existence:
		if !exists {
			return fits
		}
		return m.exists(value, key.Value)
	default:
		value = fields[key.Text]
		if key.Value.Sort == syntax.Scalar && key.Value.Scalar == "*" {
			if value == nil {
				return differs
			}
			return fits
		}
		return m.value(value, key.Value)
	}
}

// exists says whether for each map of a pattern an element fits.
func (m *matcher) exists(value any, pattern *syntax.Pattern) outcome {
	items, ok := value.([]any)
	if !ok || pattern.Sort != syntax.List {
		return differs
	}
	for _, each := range pattern.Items {
		found := func(item any) bool { return m.value(item, each) == fits }
		if each.Sort != syntax.Map || !slices.ContainsFunc(items, found) {
			return differs
		}
	}
	return fits
}

// items matches a list. Only the first element of a pattern counts, unless it is a list.
func (m *matcher) items(items []any, pattern *syntax.Pattern) outcome {
	first := pattern.Items[0]
	if first.Sort == syntax.Scalar {
		return m.value(items, first)
	}
	patterns := slices.Repeat([]*syntax.Pattern{first}, len(items))
	if first.Sort == syntax.List {
		if len(items) < len(pattern.Items) {
			return unknown
		}
		patterns = pattern.Items
	}
	applied, skipped := 0, false
	for i, each := range patterns {
		switch o := m.value(items[i], each); {
		case o.skip():
			skipped = true
		case o == fits:
			applied++
		default:
			return o
		}
	}
	if skipped && applied == 0 {
		return skipsBelow
	}
	return fits
}

// expanded returns a pattern whose keys of labels and annotations are those of an object that fit their wildcards.
func expanded(pattern *syntax.Pattern, fields map[string]any) *syntax.Pattern {
	at := slices.IndexFunc(pattern.Keys, func(k syntax.Key) bool { return k.Name == "metadata" })
	metadata, ok := fields["metadata"].(map[string]any)
	if at < 0 || !ok || pattern.Keys[at].Value.Sort != syntax.Map {
		return pattern
	}
	raw, _ := pattern.Raw().(map[string]any)
	inner, _ := raw[pattern.Keys[at].Text].(map[string]any)
	changed := maps.Clone(inner)
	for _, key := range pattern.Keys[at].Value.Keys {
		tags, of := inner[key.Text].(map[string]any)
		values, there := metadata[key.Name].(map[string]any)
		if (key.Name == "labels" || key.Name == "annotations") && of && there {
			changed[key.Text] = tagged(tags, values)
		}
	}
	all := maps.Clone(raw)
	all[pattern.Keys[at].Text] = changed
	return syntax.PatternOf(all, pattern.Field)
}

// tagged returns the texts of a map of labels, each under the key of an object that it is for.
func tagged(pattern, values map[string]any) map[string]any {
	all := map[string]any{}
	for text, value := range pattern {
		if _, ok := value.(string); !ok {
			continue
		}
		key := syntax.PatternOf(map[string]any{text: value}, "").Keys[0]
		if hasWildcard(text) {
			for _, name := range slices.Sorted(maps.Keys(values)) {
				if _, ok := values[name].(string); ok && wildcard(key.Name, name) {
					text = name
					if key.Anchor != syntax.NoAnchor {
						text = string(key.Anchor) + name + ")"
					}
					break
				}
			}
		}
		all[text] = value
	}
	return all
}

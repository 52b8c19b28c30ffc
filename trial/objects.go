package trial

import (
	"bytes"
	"cmp"
	_ "embed" // minimal.jsonl
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "k8s.io/apimachinery/pkg/util/json"

	"github.com/usher-dev/usher/kind"
	"github.com/usher-dev/usher/rule"
)

// recorded holds the minimal object of each kind as API servers send it to webhooks, one per line.
//
//go:embed minimal.jsonl
var recorded []byte

// minimal returns the recorded minimal object of a kind.
func minimal(of schema.GroupVersionKind) (map[string]any, bool) {
	apiVersion, name := of.ToAPIVersionAndKind()
	for line := range bytes.Lines(recorded) {
		if !bytes.Contains(line, []byte(`"kind":"`+name+`"`)) {
			continue
		}
		var object map[string]any
		if err := kjson.Unmarshal(line, &object); err == nil && object["apiVersion"] == apiVersion && object["kind"] == name {
			return object, true
		}
	}
	return nil, false
}

// words are the names in a policy: of fields, and of labels and annotations.
type words struct {
	fields map[string]bool
	keys   map[string][]string
}

// keyWord finds labels.team, labels["team"], /metadata/labels/team and metadata.annotations.corp.example/owner.
var keyWord = regexp.MustCompile(`(labels|annotations)(?:\[\\?"([^"\\]+)\\?"\]|/([A-Za-z0-9._~-]+)|\.([A-Za-z0-9_]+))`)

func wordsOf(spec any) words {
	w := words{fields: map[string]bool{}, keys: map[string][]string{}}
	text, err := json.Marshal(spec)
	if err != nil {
		return w
	}
	for _, word := range fieldWord.FindAll(text, -1) {
		w.fields[string(word)] = true
	}
	for _, m := range keyWord.FindAllStringSubmatch(string(text), -1) {
		key := strings.NewReplacer("~1", "/", "~0", "~").Replace(m[2] + m[3] + m[4])
		if !slices.Contains(w.keys[m[1]], key) {
			w.keys[m[1]] = append(w.keys[m[1]], key)
		}
	}
	return w
}

// mostVariants limits the objects that a rule is tried on, besides those that lack a field.
const mostVariants = 40

// A maker creates the objects of one kind that a rule is tried on.
type maker struct {
	set   *kind.Set
	of    schema.GroupVersionKind
	like  *kind.Schema
	words words
	uses  []rule.Use
	// namespace is that of the objects.
	namespace string
	// choices are the values that a field is given, by its path.
	choices map[string][]any
	edits   []path
	// owned says that the rule reads the owner of objects that need not have one.
	owned bool
}

const separator = "\x00"

func newMaker(set *kind.Set, of schema.GroupVersionKind, words words, r *rule.Rule) *maker {
	m := &maker{set: set, of: of, like: set.Schema(of), words: words, namespace: cmp.Or(r.Policy.Namespace, "x"), choices: map[string][]any{}}
	m.uses, m.edits = usesOf(r), editsOf(r)
	for i := range m.uses {
		m.choose(&m.uses[i])
		m.owned = m.owned || m.uses[i].Of == rule.OwnerObject && !isChoosy(r.Match.Selectors)
	}
	return m
}

// isChoosy reports whether all selectors pick objects by more than their kind and namespace. Labels
// that pick the pods of a workload say that these have an owner.
func isChoosy(selectors []rule.Selector) bool {
	return len(selectors) > 0 && !slices.ContainsFunc(selectors, func(s rule.Selector) bool {
		return s.Name == "" && (s.Labels == nil || s.Labels.Empty()) && len(s.Fields) == 0
	})
}

// choose records the values that decide what a rule does with one field.
func (m *maker) choose(use *rule.Use) {
	if use.Of != rule.CurrentObject && use.Of != rule.OldObject {
		return
	}
	for _, p := range use.Paths {
		at := m.set.Follow(m.like, p).At
		if at == nil || len(p) == 0 {
			continue
		}
		if path(p).expression() == "metadata.namespace" && m.set.ClusterScoped(m.of) {
			continue
		}
		key := strings.Join(p, separator)
		for _, v := range valuesFor(at, use.Compared) {
			if !slices.Contains(m.choices[key], v) && len(m.choices[key]) < mostVariants {
				m.choices[key] = append(m.choices[key], v)
			}
		}
	}
}

// valuesFor returns values of a type on both sides of comparisons.
func valuesFor(at *kind.Schema, compared []rule.Comparison) []any {
	of := at.Kind()
	var values []any
	switch {
	case len(at.Enum) > 0:
		values = slices.Clone(at.Enum)
	case of == kind.Bool:
		values = []any{true, false}
	}
	for _, c := range compared {
		for _, v := range valuesOf(c) {
			if kind.Holds(of, v) && of != kind.Anything && (len(at.Enum) == 0 || slices.Contains(at.Enum, v)) {
				values = append(values, v)
			}
		}
	}
	if of == kind.Text && len(at.Enum) == 0 && len(values) > 0 {
		other := "x"
		if slices.Contains(values, any(other)) {
			other = "y"
		}
		values = append(values, other)
	}
	return values
}

// valuesOf returns values for which a comparison is true, and values for which it is false.
func valuesOf(c rule.Comparison) []any {
	switch with := c.With.(type) {
	case int64:
		return []any{with, with + 1, with - 1}
	case float64:
		return []any{with, with + 1, with - 1}
	case string:
		if c.Op == "=~" || c.Op == "!~" {
			if text, ok := matching(with); ok {
				return []any{text}
			}
			return nil
		}
	}
	return []any{c.With}
}

// keys returns the keys that the rule names of the map at a path.
func (m *maker) keys(at []string) []string {
	var keys []string
	if len(at) == 2 && at[0] == "metadata" {
		keys = slices.Clone(m.words.keys[at[1]])
	}
	add := func(p []string) {
		if len(p) > len(at) && slices.Equal(p[:len(at)], at) && p[len(at)] != rule.Element && !slices.Contains(keys, p[len(at)]) {
			keys = append(keys, p[len(at)])
		}
	}
	for i := range m.uses {
		for _, p := range m.uses[i].Paths {
			add(p)
		}
	}
	for _, p := range m.edits {
		add(p)
	}
	return keys
}

// least returns an object without optional fields.
func (m *maker) least() map[string]any {
	object, ok := minimal(m.of)
	if !ok {
		object, _ = m.set.Sample(m.like, kind.Sampling{Least: true}).(map[string]any)
	}
	return m.identify(object)
}

// full returns an object with every field, and the first choice for each.
func (m *maker) full() map[string]any { return m.sample(0) }

// sample returns a full object; alone is as in [kind.Sampling].
func (m *maker) sample(alone int) map[string]any {
	object, _ := m.set.Sample(m.like, kind.Sampling{
		Keys: m.keys,
		Value: func(p []string) (any, bool) {
			values := m.choices[strings.Join(p, separator)]
			if len(values) == 0 {
				return nil, false
			}
			return values[0], true
		},
		Alone: alone,
	}).(map[string]any)
	return m.identify(object)
}

// identify names an object.
func (m *maker) identify(object map[string]any) map[string]any {
	if object == nil {
		object = map[string]any{}
	}
	object["apiVersion"], object["kind"] = m.of.ToAPIVersionAndKind()
	if _, has := m.like.Properties["metadata"]; !has {
		return object
	}
	metadata, ok := object["metadata"].(map[string]any)
	if !ok {
		metadata = map[string]any{}
		object["metadata"] = metadata
	}
	if _, named := metadata["name"].(string); !named {
		metadata["name"] = "x"
	}
	if _, named := metadata["namespace"].(string); !named || m.set.ClusterScoped(m.of) {
		metadata["namespace"] = m.namespace
	}
	if m.set.ClusterScoped(m.of) {
		delete(metadata, "namespace")
	}
	for name, words := range m.words.keys {
		if tree, ok := metadata[name].(map[string]any); ok {
			for _, word := range words {
				if _, ok := tree[word]; !ok {
					tree[word] = "x"
				}
			}
		}
	}
	return object
}

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
	for i := 1; i <= m.members() && len(all) < mostVariants; i++ {
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

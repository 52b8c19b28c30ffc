package trial

import (
	"bytes"
	"cmp"
	_ "embed" // minimal.jsonl
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "k8s.io/apimachinery/pkg/util/json"

	"github.com/usher-dev/usher/internal/kind"
	"github.com/usher-dev/usher/internal/rule"
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
	// namespaces and objects are what the namespaceSelector and the objectSelector of the policy select.
	namespaces, objects selection
}

// keyWord finds labels.team, labels["team"], /metadata/labels/team and metadata.annotations.corp.example/owner.
var keyWord = regexp.MustCompile(`(labels|annotations)(?:\[\\?["']([^"'\\]+)\\?["']\]|/([A-Za-z0-9._~-]+)|\.([A-Za-z0-9_]+))`)

func wordsOf(spec any) words {
	w := words{fields: map[string]bool{}, keys: map[string][]string{}}
	text, err := json.Marshal(spec)
	if err != nil {
		return w
	}
	var matches struct {
		MatchConstraints struct {
			NamespaceSelector metav1.LabelSelector `json:"namespaceSelector"`
			ObjectSelector    metav1.LabelSelector `json:"objectSelector"`
		} `json:"matchConstraints"`
	}
	if json.Unmarshal(text, &matches) == nil {
		w.namespaces, w.objects = selectedBy(&matches.MatchConstraints.NamespaceSelector), selectedBy(&matches.MatchConstraints.ObjectSelector)
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
	// namespace is that of the objects. If own is true, the policy is for no other.
	namespace string
	own       bool
	// choices are the values that a field is given, by its path.
	choices map[string][]any
	edits   []path
	// extra are keys that each map has besides.
	extra []string
	// sent is the minimal object as API servers send it, nil if none is recorded.
	sent map[string]any
	// owned says that the rule reads the owner of objects that need not have one.
	owned bool
}

const separator = "\x00"

func newMaker(set *kind.Set, of schema.GroupVersionKind, words words, r *rule.Rule) *maker {
	m := &maker{set: set, of: of, like: set.Schema(of), words: words, namespace: cmp.Or(r.Policy.Namespace, "x"), own: r.Policy.Namespace != "", choices: map[string][]any{}}
	m.uses, m.edits = usesOf(r), editsOf(r)
	m.sent, _ = minimal(of)
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
		if c.Op == "!=" && with == "" {
			// What has to be there is not, if all that is tried is empty.
			return []any{with, "1"}
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
	for _, key := range m.extra {
		if !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
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
	if m.sent != nil {
		m.complete(object, m.sent, nil)
	}
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
	if _, named := metadata["namespace"].(string); !named || m.own || m.set.ClusterScoped(m.of) {
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

package trial

import (
	"bytes"
	_ "embed" // minimal.jsonl
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "k8s.io/apimachinery/pkg/util/json"

	"github.com/usher-dev/usher/rule"
)

// recorded holds the least object of each kind as API servers hand it to webhooks, one a line.
//
//go:embed minimal.jsonl
var recorded []byte

// minimal returns the least object of a kind.
func minimal(kind schema.GroupVersionKind) (map[string]any, bool) {
	apiVersion, name := kind.ToAPIVersionAndKind()
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

var (
	fieldWord = regexp.MustCompile(`[A-Za-z_][A-Za-z0-9_]*`)
	// keyWord finds labels.team, labels["team"], /metadata/labels/team and metadata.annotations.corp.example/owner.
	keyWord = regexp.MustCompile(`(labels|annotations)(?:\[\\?"([^"\\]+)\\?"\]|/([A-Za-z0-9._~-]+)|\.([A-Za-z0-9_]+))`)
)

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

// complete gives an object the labels and annotations that the policy names.
func (w words) complete(object map[string]any) map[string]any {
	metadata, _ := object["metadata"].(map[string]any)
	for name, keys := range w.keys {
		all := map[string]any{}
		for _, key := range keys {
			all[key] = "x"
		}
		metadata[name] = all
	}
	return object
}

// A path leads to a field; "[]" is every element of a list.
type path []string

// mostOptional bounds how many fields are left out, one at a time.
const mostOptional = 60

// optional returns the fields of full that the policy names and least has not, the deepest first.
func optional(kind schema.GroupVersionKind, least, full map[string]any, words words) []path {
	var all []path
	var walk func(at path, least, full any)
	walk = func(at path, least, full any) {
		switch full := full.(type) {
		case map[string]any:
			object, _ := least.(map[string]any)
			for _, name := range slices.Sorted(maps.Keys(full)) {
				has, there := object[name]
				if !there && strings.HasSuffix(name, "Containers") {
					// Their elements have what those of containers have.
					has = object["containers"]
				}
				next := append(slices.Clone(at), name)
				walk(next, has, full[name])
				if !there && !required(kind, next) && len(all) < mostOptional && (words.fields[name] || next.isKey()) && !next.isIdentity() {
					all = append(all, next)
				}
			}
		case []any:
			list, _ := least.([]any)
			if len(full) > 0 && len(list) > 0 {
				walk(append(slices.Clone(at), "[]"), list[0], full[0])
			} else if len(full) > 0 {
				walk(append(slices.Clone(at), "[]"), nil, full[0])
			}
		}
	}
	walk(nil, least, full)
	return all
}

// isKey reports whether p is a label or an annotation.
func (p path) isKey() bool {
	return len(p) == 3 && p[0] == "metadata" && (p[1] == "labels" || p[1] == "annotations")
}

// isIdentity reports whether every object has the field when webhooks see it.
func (p path) isIdentity() bool {
	return len(p) < 2 || p[0] == "metadata" && (p[1] == "name" || p[1] == "namespace" || p[1] == "generateName")
}

// below reports whether p lies below or at other.
func (p path) below(other path) bool {
	return len(p) >= len(other) && slices.Equal(p[:len(other)], other)
}

func (p path) inList() bool { return slices.Contains(p, "[]") }

// expression is the path as programs write it.
func (p path) expression() string {
	var text strings.Builder
	for i, name := range p {
		switch {
		case name == "[]":
			text.WriteString(name)
		case fieldWord.FindString(name) != name:
			text.WriteString(`["` + name + `"]`)
		case i > 0:
			text.WriteString("." + name)
		default:
			text.WriteString(name)
		}
	}
	return text.String()
}

// lacking says of an object that it has not got the field.
func (p path) lacking() string {
	switch {
	case p.isKey():
		return "without the " + strings.TrimSuffix(p[1], "s") + " " + p[2]
	case p.inList():
		return "with an element that has no " + p.expression()
	case len(p) == 2 && p[0] == "metadata":
		return "without " + p[1]
	}
	return "without " + p.expression()
}

// parentPointer is the path as operations of JSON patch write it.
func (p path) parentPointer() string { return "/" + strings.Join(p, "/") }

// without returns a copy of an object without a field.
func without(tree map[string]any, p path) map[string]any {
	changed, _ := drop(tree, p).(map[string]any)
	return changed
}

func drop(tree any, p path) any {
	switch v := tree.(type) {
	case map[string]any:
		object := maps.Clone(v)
		if len(p) == 1 {
			delete(object, p[0])
		} else if inner, ok := object[p[0]]; ok {
			object[p[0]] = drop(inner, p[1:])
		}
		return object
	case []any:
		list := slices.Clone(v)
		for i := range list {
			list[i] = drop(list[i], p[1:])
		}
		return list
	}
	return tree
}

// unknownKinds warns of kinds that API servers do not have.
func unknownKinds(selectors []rule.Selector) []rule.Problem {
	var problems []rule.Problem
	for i, s := range selectors {
		if p, unknown := unknownKind(s.APIVersion, s.Kind); unknown {
			p.Field = selectorField(i) + ".kind"
			problems = append(problems, p)
		}
	}
	return problems
}

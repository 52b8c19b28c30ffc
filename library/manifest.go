package library

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/usher-dev/usher/internal/manifest"
)

// The label and the annotation of installed policies.
const (
	PackLabel         = "usher.dev/pack"
	VersionAnnotation = "usher.dev/pack-version"
)

// Settings are what users decide about a policy when they install it.
type Settings struct {
	// Action is what follows from a validation that fails: Warn, Deny or Audit. Empty is that of
	// the pack.
	Action string
	// Params replace default params of the same names.
	Params map[string]any
	// Namespaces have a binding each, with the action and the params; other bindings stay as they are.
	Namespaces []string
	// Namespaced says that the policy is for objects without a namespace, too, to which bindings of
	// Namespaces must not extend.
	Namespaced bool
	// Excluded are namespaces that no binding is for.
	Excluded []string
	// Within makes the policy an ObjectPolicy of this namespace, unless it is empty. Whether that means the
	// same is for the caller to know.
	Within string
	// Bindings replace those of the pack, if they are not nil: the bindings of a policy that is
	// installed already, in JSON or YAML. Without Namespaces, Action and Params are set in each.
	Bindings []byte
}

// Manifest returns the policy as it is installed: the text of the pack with its layout and
// comments, a label and an annotation that say where it is from, and the settings.
func (p *Policy) Manifest(s Settings) ([]byte, error) {
	var document yaml.Node
	if err := yaml.Unmarshal(p.Text, &document); err != nil {
		return nil, fmt.Errorf("parse policy %s: %w", p.Name, err)
	}
	root := document.Content[0]
	metadata := manifest.Member(root, "metadata")
	metadata.Style = 0
	setText(metadata, "name", p.Name)
	if s.Within != "" {
		setText(root, "kind", "ObjectPolicy")
		setText(metadata, "namespace", s.Within)
	}
	setText(child(metadata, "labels"), PackLabel, p.Pack)
	setText(child(metadata, "annotations"), VersionAnnotation, p.Version)
	spec := manifest.Member(root, "spec")
	if p.Spec.Category != "" {
		setText(spec, "category", p.Spec.Category)
	}
	if err := p.bind(spec, s); err != nil {
		return nil, fmt.Errorf("policy %s: %w", p.Name, err)
	}
	var b bytes.Buffer
	encoder := yaml.NewEncoder(&b)
	encoder.SetIndent(2)
	encoder.CompactSeqIndent()
	if err := errors.Join(encoder.Encode(&document), encoder.Close()); err != nil {
		return nil, fmt.Errorf("write policy %s: %w", p.Name, err)
	}
	return b.Bytes(), nil
}

// CheckParams returns an error for params that the policy does not have, and for values of another
// type than the default: a list, a map, a number, a text or a boolean.
func (p *Policy) CheckParams(values map[string]any) error {
	for _, name := range slices.Sorted(maps.Keys(values)) {
		value, ok := p.Params[name]
		switch {
		case !ok && len(p.Params) == 0:
			return fmt.Errorf("no param %s: the policy has no params", name)
		case !ok:
			return fmt.Errorf("no param %s: there are %s", name, strings.Join(slices.Sorted(maps.Keys(p.Params)), ", "))
		case typeOf(value) != typeOf(values[name]):
			example := ""
			if typeOf(value) == "list" && values[name] != nil && typeOf(values[name]) != "map" {
				example = fmt.Sprintf(", as in %s=[%v]", name, values[name])
			}
			return fmt.Errorf("param %s: expected a %s%s, not a %s", name, typeOf(value), example, typeOf(values[name]))
		}
	}
	return nil
}

// typeOf names the type of a value of JSON.
func typeOf(value any) string {
	switch value.(type) {
	case []any:
		return "list"
	case map[string]any:
		return "map"
	case int, int64, uint64, float64:
		return "number"
	case bool:
		return "boolean"
	case nil:
		return "null"
	}
	return "text"
}

// set sets the value of a key of a mapping.
func set(mapping *yaml.Node, key string, value *yaml.Node) {
	if old := manifest.Member(mapping, key); old != nil {
		*old = *value
		return
	}
	mapping.Content = append(mapping.Content, text(key), value)
}

// child returns the mapping at a key of another one, and adds it if it is missing.
func child(mapping *yaml.Node, key string) *yaml.Node {
	if found := manifest.Member(mapping, key); found != nil && found.Kind == yaml.MappingNode {
		return found
	}
	set(mapping, key, &yaml.Node{Kind: yaml.MappingNode})
	return manifest.Member(mapping, key)
}

func setText(mapping *yaml.Node, key, value string) { set(mapping, key, text(value)) }

// text returns a node with a string. The style is that of values which other parsers might take
// for something else.
func text(value string) *yaml.Node {
	node := &yaml.Node{}
	node.SetString(value)
	return node
}

// plain removes the styles of a tree: what was JSON is written as YAML.
func plain(node *yaml.Node) {
	node.Style = 0
	for _, below := range node.Content {
		plain(below)
	}
}

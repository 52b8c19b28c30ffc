package manifest

import (
	"bytes"
	"errors"
	"io"
	"iter"

	"go.yaml.in/yaml/v3"
)

// Nodes parses the documents of a YAML stream. It ends at the first error.
func Nodes(content []byte) iter.Seq2[*yaml.Node, error] {
	return func(yield func(*yaml.Node, error) bool) {
		for decoder := yaml.NewDecoder(bytes.NewReader(content)); ; {
			var document yaml.Node
			err := decoder.Decode(&document)
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				yield(nil, err)
				return
			}
			for _, root := range document.Content {
				if !yield(root, nil) {
					return
				}
			}
		}
	}
}

// Resolve returns the node that an alias refers to, and every other node.
func Resolve(node *yaml.Node) *yaml.Node {
	for node != nil && node.Kind == yaml.AliasNode && node.Alias != nil {
		node = node.Alias
	}
	return node
}

// Entry returns the key and the value of a mapping, as they are written; nil if it is no mapping or has no such key.
func Entry(node *yaml.Node, name string) (key, value *yaml.Node) {
	node = Resolve(node)
	if node == nil || node.Kind != yaml.MappingNode {
		return nil, nil
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		if node.Content[i].Value == name {
			return node.Content[i], node.Content[i+1]
		}
	}
	return nil, nil
}

// Member follows names into mappings, and returns nil if there is no such value.
func Member(node *yaml.Node, path ...string) *yaml.Node {
	for _, name := range path {
		_, value := Entry(node, name)
		node = Resolve(value)
	}
	return node
}

// Text returns the text of a scalar that [Member] finds, empty if there is none.
func Text(node *yaml.Node, path ...string) string {
	if found := Member(node, path...); found != nil {
		return found.Value
	}
	return ""
}

package manifest

import (
	"bytes"
	"errors"
	"io"
	"slices"

	"go.yaml.in/yaml/v3"
)

// HasCases reports whether a file has test cases, and no objects: see docs/test-format.md. It does not
// report whether they are correct.
func HasCases(file string) bool {
	const most = 64 << 20
	content, err := Read(file, most)
	if err != nil {
		return false
	}
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	for found := false; ; {
		var document yaml.Node
		if err := decoder.Decode(&document); err != nil {
			return found && errors.Is(err, io.EOF)
		}
		switch {
		case hasFields(&document, "apiVersion", "kind"):
			return false
		case hasFields(&document, "request", "expect"), hasFields(&document, "policies", "cases"):
			found = true
		}
	}
}

// hasFields reports whether a document, or the first item of one that is a list, has all fields.
func hasFields(node *yaml.Node, fields ...string) bool {
	for (node.Kind == yaml.DocumentNode || node.Kind == yaml.SequenceNode) && len(node.Content) > 0 {
		node = node.Content[0]
	}
	return node.Kind == yaml.MappingNode && !slices.ContainsFunc(fields, func(name string) bool {
		for i := 0; i < len(node.Content); i += 2 {
			if node.Content[i].Value == name {
				return false
			}
		}
		return true
	})
}

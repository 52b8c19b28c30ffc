package manifest

import (
	"slices"

	"go.yaml.in/yaml/v3"
)

// HasCases reports whether a file has test cases, and no objects: see docs/test-format.md. It does not
// report whether they are correct.
func HasCases(file string) bool {
	const most = 64 << 20
	content, err := Read(file, most)
	return err == nil && TextHasCases(content)
}

// TextHasCases is [HasCases] for a text.
func TextHasCases(content []byte) bool {
	found := false
	for root, err := range Nodes(content) {
		switch {
		case err != nil, hasFields(root, "apiVersion", "kind"):
			return false
		case hasFields(root, "request", "expect"), hasFields(root, "policies", "cases"):
			found = true
		}
	}
	return found
}

// hasFields reports whether a document, or the first item of one that is a list, has all fields.
func hasFields(node *yaml.Node, fields ...string) bool {
	for node.Kind == yaml.SequenceNode && len(node.Content) > 0 {
		node = node.Content[0]
	}
	return !slices.ContainsFunc(fields, func(name string) bool { return Member(node, name) == nil })
}

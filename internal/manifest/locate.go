package manifest

import (
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Locate returns the line of path, such as spec.items[0].name, below node, which itself is introduced
// at line, and the value there. If there is none it is the line of the closest parent, and nil.
func Locate(node *yaml.Node, line int, path string) (int, *yaml.Node) {
	node = Resolve(node)
	if path == "" {
		return begin(node, line), node
	}
	switch node.Kind {
	case yaml.MappingNode:
		if key, value, rest := member(node, path); key != nil {
			return Locate(value, key.Line, rest)
		}
	case yaml.SequenceNode:
		index, rest, ok := strings.Cut(strings.TrimPrefix(path, "["), "]")
		if i, err := strconv.Atoi(index); ok && err == nil && i >= 0 && i < len(node.Content) {
			item := node.Content[i]
			return Locate(item, item.Line, strings.TrimPrefix(rest, "."))
		}
	}
	return line, nil
}

// member returns the member of a mapping that path begins with, and the rest of path. Keys may
// contain dots: the longest match wins.
func member(mapping *yaml.Node, path string) (key, value *yaml.Node, rest string) {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		k := mapping.Content[i]
		after, ok := strings.CutPrefix(path, k.Value)
		if !ok || after != "" && after[0] != '.' && after[0] != '[' || key != nil && len(k.Value) < len(key.Value) {
			continue
		}
		key, value, rest = k, mapping.Content[i+1], strings.TrimPrefix(after, ".")
	}
	return key, value, rest
}

// begin returns the line where a value begins: the first line of text of a block scalar,
// which comes after its indicator, and otherwise the line that introduces the value.
func begin(node *yaml.Node, line int) int {
	if node.Kind == yaml.ScalarNode && node.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
		return node.Line + 1
	}
	return line
}

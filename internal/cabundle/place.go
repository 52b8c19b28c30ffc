package cabundle

import (
	"bytes"
	"slices"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// lineStarts returns where the lines of a text begin.
func lineStarts(text []byte) []int {
	starts := []int{0}
	for i, c := range text {
		if c == '\n' {
			starts = append(starts, i+1)
		}
	}
	return starts
}

// lineStart returns where a line begins, counted from 1; after the last one the end.
func (e *editor) lineStart(line int) int {
	if line > len(e.lines) {
		return len(e.text)
	}
	return e.lines[line-1]
}

// lineEnd returns the line break of a line.
func (e *editor) lineEnd(line int) string {
	if next := e.lineStart(line + 1); bytes.HasSuffix(e.text[:next], []byte("\r\n")) {
		return "\r\n"
	}
	return "\n"
}

// offset returns where a node begins. Columns are counted in characters.
func (e *editor) offset(node *yaml.Node) int {
	at := e.lineStart(node.Line)
	for range node.Column - 1 {
		_, size := utf8.DecodeRune(e.text[at:])
		at += size
	}
	return min(at, len(e.text))
}

// indexOrEnd returns where one of the characters is, or the end of text.
func indexOrEnd(text []byte, chars string) int {
	if i := bytes.IndexAny(text, chars); i >= 0 {
		return i
	}
	return len(text)
}

// entry returns the key and the value of a map; nil if it is no map or has no such key.
func entry(node *yaml.Node, name string) (key, value *yaml.Node) {
	node = resolve(node)
	if node == nil || node.Kind != yaml.MappingNode {
		return nil, nil
	}
	for pair := range slices.Chunk(node.Content, 2) {
		if pair[0].Value == name {
			if name == "caBundle" {
				return pair[0], pair[1]
			}
			return pair[0], resolve(pair[1])
		}
	}
	return nil, nil
}

// field follows keys into maps.
func field(node *yaml.Node, path ...string) *yaml.Node {
	for _, name := range path {
		_, node = entry(node, name)
	}
	return node
}

// items returns the items of a list.
func items(node *yaml.Node) []*yaml.Node {
	if node == nil || node.Kind != yaml.SequenceNode {
		return nil
	}
	all := make([]*yaml.Node, len(node.Content))
	for i, item := range node.Content {
		all[i] = resolve(item)
	}
	return all
}

func text(node *yaml.Node) string {
	if node == nil {
		return ""
	}
	return node.Value
}

// resolve returns the node that an alias refers to.
func resolve(node *yaml.Node) *yaml.Node {
	if node != nil && node.Kind == yaml.AliasNode {
		return node.Alias
	}
	return node
}

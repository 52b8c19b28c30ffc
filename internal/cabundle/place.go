package cabundle

import (
	"bytes"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/usher-dev/usher/internal/manifest"
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

// items returns the items of the list at a key.
func items(node *yaml.Node, name string) []*yaml.Node {
	found := manifest.Member(node, name)
	if found == nil || found.Kind != yaml.SequenceNode {
		return nil
	}
	all := make([]*yaml.Node, len(found.Content))
	for i, item := range found.Content {
		all[i] = manifest.Resolve(item)
	}
	return all
}

// Package draft reads YAML that is being written: whatever the text is, there is a tree of what can be told
// from its indentation and its brackets, and each value knows where it is. Of text that is valid, the tree is
// that of YAML, except for aliases, tags and keys that are not plain or quoted text.
package draft

import (
	"strconv"
	"strings"
)

// A Kind says what a node is.
type Kind int

// The kinds of nodes. Nothing is a value that has not been written yet.
const (
	Nothing Kind = iota
	Scalar
	Map
	List
)

// A Node is a value, with its key if it is a member of a map.
type Node struct {
	Kind   Kind
	Parent *Node
	// Children are the values of a map or the items of a list, in order.
	Children []*Node
	// From and To are where the value begins and ends in the text, in bytes.
	From, To int
	// Key is that of a member of a map, from KeyFrom to KeyTo in the text. A member without a colon has Partial.
	Key            string
	KeyFrom, KeyTo int
	Partial        bool
	// Flow says that a map or a list is written in brackets; if it is not, Column is that of its first key or
	// hyphen, counted from 0.
	Flow   bool
	Column int

	// style is the first character of a scalar that is not plain.
	style byte
	text  string
}

// A Tree is a text with its documents.
type Tree struct {
	// Documents are the roots.
	Documents []*Node
	// Text is what was read.
	Text string
	// starts are the offsets of the lines, and bounds those of documents.
	starts, bounds []int
	nodes          int
}

// Parse reads a text.
func Parse(text string) *Tree {
	t := &Tree{Text: text}
	begin := 0
	for at := 0; at < len(text); {
		end := lineEnd(text, at)
		t.starts = append(t.starts, at)
		if isBoundary(text[at:end]) {
			t.document(begin, at)
			begin = at + 3
		}
		at = end + 1
	}
	if strings.HasSuffix(text, "\n") || text == "" {
		t.starts = append(t.starts, len(text))
	}
	t.document(begin, len(text))
	return t
}

// isBoundary reports whether a line ends a document.
func isBoundary(line string) bool {
	return strings.HasPrefix(line, "---") || strings.HasPrefix(line, "...") && strings.TrimSpace(line) == "..."
}

// document reads the document between two offsets.
func (t *Tree) document(from, to int) {
	p := parser{text: t.Text, at: from, end: to, line: from, nodes: &t.nodes}
	if from > 0 {
		p.line = strings.LastIndexByte(t.Text[:from], '\n') + 1
	}
	root := p.block(nil, -1, false)
	for p.skip() {
		// What is indented by less than what precedes it.
		from := p.at
		more := p.block(nil, -1, false)
		if root.Kind == Nothing {
			root = more
		}
		if root != more && root.Kind == Map && more.Kind == Map {
			for _, child := range more.Children {
				child.Parent = root
			}
			root.Children, root.To = append(root.Children, more.Children...), more.To
		}
		if p.at == from {
			p.at = min(lineEnd(p.text, p.at), p.end)
		}
	}
	t.bounds, t.Documents = append(t.bounds, to), append(t.Documents, root)
}

// Document returns the root of the document at an offset.
func (t *Tree) Document(offset int) *Node {
	for i, end := range t.bounds {
		if offset <= end || i == len(t.bounds)-1 {
			return t.Documents[i]
		}
	}
	return nil
}

// Get returns the value of a key; nil if there is none.
func (n *Node) Get(key string) *Node {
	if n == nil || n.Kind != Map {
		return nil
	}
	for _, child := range n.Children {
		if child.Key == key && !child.Partial {
			return child
		}
	}
	return nil
}

// Value returns the text of a scalar; empty if it is none.
func (n *Node) Value() string {
	if n == nil || n.Kind != Scalar {
		return ""
	}
	return n.Text().String
}

// Find returns the value with a path such as spec.items[0].name, or the closest parent that exists. Keys may
// contain dots: the longest match wins.
func (n *Node) Find(path string) *Node {
	for path != "" {
		var next *Node
		rest := ""
		switch n.Kind {
		case Map:
			for _, child := range n.Children {
				after, ok := strings.CutPrefix(path, child.Key)
				if ok && (after == "" || after[0] == '.' || after[0] == '[') && (next == nil || len(child.Key) > len(next.Key)) {
					next, rest = child, strings.TrimPrefix(after, ".")
				}
			}
		case List:
			index, after, _ := strings.Cut(strings.TrimPrefix(path, "["), "]")
			if i, err := strconv.Atoi(index); err == nil && i >= 0 && i < len(n.Children) {
				next, rest = n.Children[i], strings.TrimPrefix(after, ".")
			}
		case Nothing, Scalar:
		}
		if next == nil {
			return n
		}
		n, path = next, rest
	}
	return n
}

// Path returns the keys that lead to a node; the items of a list are "[]".
func (n *Node) Path() []string {
	var path []string
	for ; n != nil && n.Parent != nil; n = n.Parent {
		step := n.Key
		if n.Parent.Kind == List {
			step = "[]"
		}
		path = append(path, step)
	}
	for i, j := 0, len(path)-1; i < j; i, j = i+1, j-1 {
		path[i], path[j] = path[j], path[i]
	}
	return path
}

// At returns the innermost node with an offset in its value or its key.
func (n *Node) At(offset int) *Node {
	for {
		var next *Node
		for _, child := range n.Children {
			if child.begin() <= offset && offset <= max(child.To, child.KeyTo) {
				next = child
			}
		}
		if next == nil {
			return n
		}
		n = next
	}
}

// begin returns where a node begins, with its key.
func (n *Node) begin() int {
	if n.KeyTo > 0 {
		return n.KeyFrom
	}
	return n.From
}

// InKey reports whether an offset is in the key of a node.
func (n *Node) InKey(offset int) bool {
	return n.KeyTo > n.KeyFrom && n.KeyFrom <= offset && offset <= n.KeyTo
}

func lineEnd(text string, at int) int {
	if i := strings.IndexByte(text[at:], '\n'); i >= 0 {
		return at + i
	}
	return len(text)
}

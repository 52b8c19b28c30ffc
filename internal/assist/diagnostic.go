package assist

import (
	"context"
	"strings"
	"unicode/utf8"

	"github.com/usher-dev/usher/internal/assist/draft"
	"github.com/usher-dev/usher/internal/printable"
	"github.com/usher-dev/usher/internal/rule"
)

// A Diagnostic is a problem in the text.
type Diagnostic struct {
	Range

	Severity rule.Severity
	// Message says what is wrong, and what to do.
	Message string
	// Fix corrects it; nil if nothing is known that does.
	Fix *Fix
}

// Check returns what is wrong with a text, as the command check reports it. The error is that of ctx.
func (f *File) Check(ctx context.Context, text string) ([]Diagnostic, error) {
	problems, err := f.checker.Check(ctx, f.parser.Parse([]byte(text)))
	if err != nil {
		return nil, err
	}
	all := make([]Diagnostic, len(problems))
	var tree *draft.Tree
	for i, p := range problems {
		if tree == nil {
			tree = draft.Parse(text)
		}
		message := p.What
		if p.Do != "" {
			message += "; " + p.Do
		}
		if p.Field != "" {
			message = p.Field + ": " + message
		}
		place := rangeOf(tree, &problems[i])
		fix := fixOf(tree, &problems[i], place)
		if fix != nil {
			place = fix.Range
		}
		all[i] = Diagnostic{Range: place, Severity: p.Severity, Message: printable.Line(message), Fix: fix}
	}
	return all, nil
}

// rangeOf returns the part of a text that a problem is about.
func rangeOf(tree *draft.Tree, p *rule.Problem) Range {
	from, to := tree.Line(p.Line - 1)
	if p.Column > 0 {
		from = tree.Column(p.Line, p.Column)
		return Range{from, from + partOf(tree.Text[from:max(from, to)])}
	}
	root := tree.Document(to)
	if n := fieldOf(root, p); n != nil {
		if n.KeyTo > n.KeyFrom && tree.LineOf(n.KeyFrom) == p.Line-1 {
			return Range{n.KeyFrom, n.KeyTo}
		}
		if tree.LineOf(n.From) == p.Line-1 {
			return Range{n.From, min(n.To, to)}
		}
	}
	line := tree.Text[from:to]
	trimmed := strings.TrimLeft(line, " \t-")
	return Range{to - len(trimmed), from + len(strings.TrimRight(line, " \t"))}
}

// fieldOf returns the field of a problem in a document, which may be a list of policies.
func fieldOf(n *draft.Node, p *rule.Problem) *draft.Node {
	if p.Field == "" || n == nil {
		return nil
	}
	if items := n.Get("items"); items != nil && items.Kind == draft.List && strings.HasSuffix(n.Get("kind").Value(), "List") {
		for _, item := range items.Children {
			if metadata := item.Get("metadata"); metadata.Get("name").Value() == p.Policy.Name && metadata.Get("namespace").Value() == p.Policy.Namespace {
				return fieldOf(item, p)
			}
		}
		return nil
	}
	return n.Find(p.Field)
}

// partOf returns the length of the word that a text begins with, or of its first character.
func partOf(text string) int {
	length := 0
	for length < len(text) {
		r, size := utf8.DecodeRuneInString(text[length:])
		if !isWord(r) {
			break
		}
		length += size
	}
	if length == 0 && text != "" {
		_, length = utf8.DecodeRuneInString(text)
	}
	return length
}

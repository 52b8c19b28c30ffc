package assist

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/internal/assist/draft"
	"github.com/usher-dev/usher/internal/printable"
)

// A Completion is something that can be written at a place.
type Completion struct {
	// Label is its name, and Insert is what is written in place of Range.
	Label, Insert string
	Range

	Kind   CompletionKind
	Detail string
	// Text says what it is, in Markdown.
	Text string
}

// A CompletionKind says what a completion is.
type CompletionKind int

// The kinds of completions.
const (
	FieldCompletion CompletionKind = iota
	VariableCompletion
	FunctionCompletion
	ValueCompletion
)

// mostCompletions limits the completions of a place.
const mostCompletions = 500

// Complete returns what can be written at an offset of a text.
func (s *Service) Complete(ctx context.Context, text string, offset int) []Completion {
	offset = max(0, min(offset, len(text)))
	// As if a word had been begun: it has a place in the tree.
	const begun = "x"
	p := locate(text[:offset]+begun+text[offset:], offset+1)
	p.offset = offset
	var all []Completion
	if expression, inside, ok := p.expression(); ok {
		all = s.completeExpression(ctx, p, expression, inside)
	} else {
		all = s.completeField(p)
	}
	for i := range all {
		c := &all[i]
		c.From, c.To = min(c.From, offset), max(offset, c.To-len(begun))
		c.Text = printable.Lines(c.Text)
	}
	return all[:min(len(all), mostCompletions)]
}

// completeExpression returns what can be written at an offset of an expression.
func (s *Service) completeExpression(ctx context.Context, p *place, text *draft.Text, offset int) []Completion {
	c := at(text.String, offset)
	if c.inText {
		return nil
	}
	to := Range{text.Source(c.from), text.Source(max(c.to, c.from+1))}
	var all []Completion
	for _, name := range s.names(ctx, p, &c) {
		label := strings.TrimPrefix(name.Name, c.receiver+".")
		if !strings.HasPrefix(label, c.prefix) {
			continue
		}
		detail, _, more := strings.Cut(name.Type, "\n")
		if more {
			detail += " …"
		}
		one := Completion{Label: label, Insert: label, Range: to, Kind: VariableCompletion, Detail: detail, Text: s.textOf(&name)}
		switch {
		case name.Function:
			one.Kind, one.Insert = FunctionCompletion, label+"("
		case c.receiver != "":
			one.Kind = FieldCompletion
		}
		all = append(all, one)
	}
	return all
}

// completeField returns the keys and the values that can be written at a place.
func (s *Service) completeField(p *place) []Completion {
	n := p.node
	if n.InKey(p.offset) || n.Partial {
		return s.keys(p, n.Parent, p.path[:max(0, len(p.path)-1)], Range{n.KeyFrom, n.KeyTo}, n)
	}
	to := Range{n.From, n.To}
	of := s.catalog.of(p.kind).find(p.path)
	var all []Completion
	for _, value := range s.values(p, of) {
		insert := value
		if value == "" || strings.ContainsAny(value, "*:#{}[]") {
			insert = `"` + value + `"`
		}
		all = append(all, Completion{Label: value, Insert: insert, Range: to, Kind: ValueCompletion})
	}
	if n.Kind == draft.Scalar && (p.tree.LineOf(n.From) != p.tree.LineOf(n.KeyFrom) || n.KeyTo == n.KeyFrom) && !strings.Contains(n.Value(), "\n") {
		// What stands alone in its line may become a key.
		all = append(all, s.keys(p, nil, p.path, to, nil)...)
	}
	return all
}

// keys returns the keys that the value with a path can have, and that others of its map are not.
func (s *Service) keys(p *place, in *draft.Node, path []string, to Range, written *draft.Node) []Completion {
	of := s.catalog.of(p.kind).find(path)
	if of == nil && len(path) == 0 {
		of = &field{fields: map[string]*field{"apiVersion": {shape: "text"}, "kind": {shape: "text"}, "metadata": {shape: "a map"}, "spec": {shape: "a map"}}}
	}
	if of == nil {
		return nil
	}
	var all []Completion
	for _, name := range slices.Sorted(maps.Keys(of.fields)) {
		if other := in.Get(name); other != nil && other != written {
			continue
		}
		f := of.fields[name]
		insert := name + ": "
		if written != nil && !written.Partial {
			insert = name
		} else if f.fields != nil || f.items != nil {
			insert = name + ":"
		}
		detail := f.shape
		if slices.Contains(of.required, name) {
			detail += ", required"
		}
		all = append(all, Completion{Label: name, Insert: insert, Range: to, Kind: FieldCompletion, Detail: detail, Text: f.description()})
	}
	return all
}

// values returns the values that a field can have.
func (s *Service) values(p *place, of *field) []string {
	last := ""
	for _, name := range p.path {
		if name != "[]" {
			last = name
		}
	}
	if len(p.path) == 1 {
		return s.head(p, last)
	}
	if of == nil {
		return nil
	}
	if values := of.allowed(); len(values) > 0 {
		return values
	}
	values := map[string]bool{}
	for r := range s.kinds().Resources() {
		switch last {
		case "apiGroups":
			values[r.Under()] = true
		case "apiVersions":
			values[r.Version] = true
		case "resources":
			if groups := texts(p.node.Parent.Parent.Get("apiGroups")); len(groups) == 0 || matches(groups, r.Under()) {
				values[r.Name] = true
			}
		}
	}
	if last == "operations" {
		return []string{"CREATE", "UPDATE", "DELETE", "CONNECT", "*"}
	}
	return slices.Sorted(maps.Keys(values))
}

// head returns the kinds of policies, or their versions.
func (s *Service) head(p *place, name string) []string {
	kinds := api.Kinds()
	for _, versions := range api.ForeignKinds() {
		kinds = append(kinds, versions[0])
	}
	values := map[string]bool{}
	for i := range kinds {
		switch {
		case name == "apiVersion":
			values[kinds[i].GroupVersion().String()] = true
		case name == "kind" && (p.kind.Group == "" || kinds[i].GroupVersion() == p.kind.GroupVersion()):
			values[kinds[i].Kind] = true
		}
	}
	return slices.Sorted(maps.Keys(values))
}

package assist

import (
	"context"
	"strings"

	"github.com/usher-dev/usher/internal/assist/draft"
	"github.com/usher-dev/usher/internal/lang/cel/typecheck"
	"github.com/usher-dev/usher/internal/printable"
)

// A Hover says what is at a place, in Markdown.
type Hover struct {
	Range

	Text string
}

// Hover returns what is at an offset of a text, and false if nothing is known of it.
func (s *Service) Hover(ctx context.Context, text string, offset int) (Hover, bool) {
	p := locate(text, offset)
	if expression, inside, ok := p.expression(); ok && !p.node.InKey(p.offset) {
		return s.hoverExpression(ctx, p, expression, inside)
	}
	if !p.node.InKey(p.offset) {
		return Hover{}, false
	}
	of := s.catalog.of(p.kind).find(p.path)
	if of == nil {
		return Hover{}, false
	}
	about := strings.Join(p.path, ".")
	about = strings.ReplaceAll(about, ".[]", "[]")
	return Hover{Range{p.node.KeyFrom, p.node.KeyTo}, markdown(about+": "+of.shape, of.description())}, true
}

// description returns what a field is, and what it can be.
func (f *field) description() string {
	text := f.text
	if values := f.allowed(); len(f.values) > 0 {
		text = strings.TrimSpace(text + "\n\nOne of " + strings.Join(values, ", ") + ".")
	}
	return text
}

// markdown returns a line of code, and a text below it.
func markdown(code, text string) string {
	code = "```\n" + strings.ReplaceAll(printable.Lines(code), "```", "'''") + "\n```"
	if text = strings.TrimSpace(printable.Lines(text)); text != "" {
		code += "\n\n" + text
	}
	return code
}

// hoverExpression returns what is at an offset of an expression.
func (s *Service) hoverExpression(ctx context.Context, p *place, text *draft.Text, offset int) (Hover, bool) {
	c := at(text.String, offset)
	if c.name == "" || c.inText {
		return Hover{}, false
	}
	for _, name := range s.names(ctx, p, &c) {
		if name.Name != c.name && name.Name != c.receiver+"."+c.name {
			continue
		}
		code := name.Type
		if !name.Function || code == "" {
			code = name.Name + ": " + name.Type
		}
		if name.Function && name.Type == "" {
			code = name.Name + "(…)"
		}
		return Hover{Range{text.Source(c.from), text.Source(c.to)}, markdown(code, s.textOf(&name))}, true
	}
	return Hover{}, false
}

// textOf returns what a name is.
func (s *Service) textOf(n *typecheck.Name) string {
	if n.Of != "" {
		return s.texts()[n.Of][n.Name]
	}
	return n.Text
}

// names returns what can be at a place of an expression.
func (s *Service) names(ctx context.Context, p *place, c *cursor) []typecheck.Name {
	var all []typecheck.Name
	seen := map[string]bool{}
	add := func(names []typecheck.Name) {
		for _, name := range names {
			if !seen[name.Name] {
				seen[name.Name] = true
				all = append(all, name)
			}
		}
	}
	for _, scope := range s.scopes(ctx, p) {
		if c.receiver == "" {
			for _, f := range c.frames {
				for _, name := range f.names {
					add([]typecheck.Name{{Name: name, Type: scope.Type(within(c.frames, name)).String()}})
				}
			}
			add(scope.Variables())
			add(scope.Functions(nil))
			continue
		}
		var spaced []typecheck.Name
		for _, function := range scope.Functions(nil) {
			if strings.HasPrefix(function.Name, c.receiver+".") {
				spaced = append(spaced, function)
			}
		}
		if add(spaced); len(spaced) > 0 {
			continue
		}
		of := scope.Type(within(c.frames, c.receiver))
		add(scope.Fields(of))
		add(scope.Functions(&of))
	}
	return all
}

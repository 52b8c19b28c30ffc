package cue

import (
	"slices"
	"strings"

	usher "github.com/usher-dev/usher"

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/literal"
	"cuelang.org/go/cue/token"
)

// ReadPaths implements [rule.Selective]: the paths that the source reads, and those that it may
// patch, as far as they are literals.
func (p *Program) ReadPaths() (object, old *usher.Paths) { return &p.object, &p.old }

// want determines the paths that p reads.
func (p *Program) want() {
	switch {
	case p.extra != nil:
		// The function that computes the parameters may read anything.
		p.object.Add()
		p.old.Add()
		return
	case p.form == Override || p.form == Validate:
		p.reads["object"].addTo(&p.object)
		p.reads["oldObject"].addTo(&p.old)
	default:
		if data := p.reads["data"]; data != nil && data.whole {
			data.addTo(&p.object)
			data.addTo(&p.old)
		} else if data != nil {
			data.field("object").addTo(&p.object)
			data.field("oldObject").addTo(&p.old)
		}
	}
	if p.form == Override || p.form == RenderedOverride {
		for _, pointer := range p.pointers {
			p.object.AddPointer(pointer)
		}
	}
}

// addTo adds what n reads to paths, below path. Lists, and values with computed keys, are added as
// a whole.
func (n *need) addTo(paths *usher.Paths, at ...string) {
	switch {
	case n == nil:
	case n.whole, n.each != nil, len(n.elements) > 0, len(n.fields) == 0 && len(at) > 0:
		paths.Add(at...)
	default:
		for name, sub := range n.fields {
			sub.addTo(paths, append(slices.Clip(at), name)...)
		}
	}
}

// pointersIn returns the string literals in a source that look like the path of an operation, up to
// the first interpolation. If one is not a path, too much is decoded.
func pointersIn(file *ast.File) []string {
	var pointers []string
	ast.Walk(file, func(n ast.Node) bool {
		switch x := n.(type) {
		case *ast.Interpolation:
			if start, ok := x.Elts[0].(*ast.BasicLit); ok {
				text := strings.TrimPrefix(start.Value, `"`)
				if last := strings.LastIndexByte(text, '/'); last > 0 && text[0] == '/' {
					pointers = append(pointers, text[:last])
				}
			}
		case *ast.BasicLit:
			if x.Kind != token.STRING {
				break
			}
			if text, err := literal.Unquote(x.Value); err == nil && len(text) > 1 && text[0] == '/' {
				pointers = append(pointers, text)
			}
		}
		return true
	}, nil)
	return pointers
}

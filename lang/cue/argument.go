package cue

import (
	"math"
	"regexp"
	"strings"

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/literal"
	"cuelang.org/go/cue/token"
)

func trees(texts []string) []any {
	list := make([]any, len(texts))
	for i, text := range texts {
		list[i] = text
	}
	return list
}

// known returns the i-th argument if it is a text of the input or written out.
func (c *callee) known(i int) (string, bool) {
	if i >= len(c.args) {
		return "", false
	}
	if lit, ok := c.call.Args[i].(*ast.BasicLit); ok && lit.Kind == token.STRING {
		text, err := literal.Unquote(lit.Value)
		return text, err == nil
	}
	v := c.args[i]
	if len(v.trees) != 1 || len(v.alts)+len(v.parts)+len(v.lits) > 0 || v.any != nil {
		return "", false
	}
	text, ok := v.trees[0].(string)
	return text, ok
}

// replaced bounds strings.Replace: as many replacements as there can be, of what is
// replaced where that is written out.
func (c *callee) replaced() float64 {
	places := c.text(0) + 1
	if len(c.call.Args) > 1 {
		if lit, ok := c.call.Args[1].(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if old, err := literal.Unquote(lit.Value); err == nil && old != "" {
				places = c.text(0) / float64(len(old))
			}
		}
	}
	if n := c.arg(3).number; n >= 0 && !mayBeNegative(c.call.Args[3]) {
		places = min(places, n)
	}
	return c.text(0) + places*c.text(2)
}

// mayBeNegative reports whether a number is not simply written out.
func mayBeNegative(x ast.Expr) bool {
	_, ok := x.(*ast.BasicLit)
	return !ok
}

// pieces bounds how many a text is split into.
func (c *callee) pieces() float64 { return c.text(0) + 1 }

// backReferences bounds how often a replacement repeats what it replaces.
func (c *callee) backReferences() float64 {
	if len(c.call.Args) > 2 {
		if lit, ok := c.call.Args[2].(*ast.BasicLit); ok {
			return float64(strings.Count(lit.Value, "$"))
		}
	}
	return c.text(2)
}

func (c *callee) submatches(name string) *extent {
	groups := c.text(0) + 1
	matches := 1.0
	if strings.Contains(name, "All") {
		matches = c.text(1) + 1
		if n := c.arg(2).number; n >= 0 && len(c.call.Args) > 2 && !mayBeNegative(c.call.Args[2]) {
			matches = min(matches, n)
		}
	}
	v := c.result
	v.any = &inputSize{values: matches * groups, bytes: groups * c.text(1), number: -1}
	v.text = c.text(1)
	return c.checked(c.call, v)
}

func (c *callee) parsedNumber() float64 {
	if a := c.arg(0); len(a.trees) == 1 && len(a.alts) == 0 {
		if s, ok := a.trees[0].(string); ok && len(s) < 400 {
			return magnitude(s)
		}
	}
	return math.Pow(10, min(c.text(0), 300))
}

// controls are the actions of a template that may make it grow or go on and on.
var controls = regexp.MustCompile(`range|template|define|block|printf|break|continue`)

// template accepts templates that are written out and do not multiply.
func (c *callee) template() *extent {
	lit, ok := c.call.Args[0].(*ast.BasicLit)
	if !ok || controls.MatchString(lit.Value) {
		c.exceed(c.call, "is a template of which there is no telling how large it may become")
		return c.result
	}
	return c.scalar(times(c.text(0), 8*c.total(c.arg(1))), -1)
}

// beginning returns the first character of a text that is written out, 0 otherwise.
func (c *callee) beginning() byte {
	if len(c.call.Args) == 0 {
		return 0
	}
	written := ""
	switch x := c.call.Args[0].(type) {
	case *ast.BasicLit:
		written = x.Value
	case *ast.Interpolation:
		if lit, ok := x.Elts[0].(*ast.BasicLit); ok {
			written = lit.Value
		}
	}
	if !strings.HasPrefix(written, `"`) || strings.HasPrefix(written, `"""`) {
		return 0
	}
	if written = strings.TrimLeft(written[1:], " "); written == "" {
		return 0
	}
	return written[0]
}

// yaml bounds what a document may become: its aliases expand to 50,000 nodes at most.
func (c *callee) yaml() *extent {
	const mostNodes = 50_000
	v := c.other()
	v.any.values += mostNodes
	if c.mayContain(0, "*") {
		v.any.bytes *= mostNodes
	}
	return v
}

// mayContain reports whether the i-th argument may be a text with sub in it.
func (c *callee) mayContain(i int, sub string) bool {
	if i < len(c.call.Args) {
		if lit, ok := c.call.Args[i].(*ast.BasicLit); ok {
			return strings.Contains(lit.Value, sub)
		}
	}
	for _, tree := range c.arg(i).trees {
		if text, ok := tree.(string); ok && strings.Contains(text, sub) {
			return true
		}
	}
	return len(c.arg(i).trees) == 0 || len(c.arg(i).alts) > 0
}

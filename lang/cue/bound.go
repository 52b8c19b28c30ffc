package cue

import (
	"fmt"
	"strings"

	"github.com/usher-dev/usher/rule"

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/token"
)

// A bound keeps a program from making more than the process can hold.
type bound struct {
	source string
	file   *ast.File
	// free is the size of inputs of which a program surely makes no more than it may;
	// zero means that each input has to be looked at.
	free inputSize
}

// bound reports what a source would make too much of, even of no input, and gives p what
// tells it of each input.
func (c *compilation) bound(p *Program, file *ast.File, source string) bool {
	if x := growthOf(file, nil, constantBounds); x != nil {
		c.problem(rule.Error, x.position(), x.text(source), "bound what it repeats, adds up or loops over")
		return false
	}
	// The file goes on to be changed.
	own, err := parseFile(source)
	if err != nil {
		c.cueErrors(err)
		return false
	}
	removeAttributes(own)
	p.bound = bound{source: source, file: own}
	for _, size := range []inputSize{{20_000, 1 << 20, 1e18}, {2000, 64 << 10, 1e18}, {200, 10_000, 1e18}, {200, 10_000, 1000}} {
		if growthOf(own, inputExtent(size), inputBounds) == nil {
			p.bound.free = size
			break
		}
	}
	return true
}

// check returns ErrTooLarge if the program may make too much of an input of this many
// values and bytes.
func (b *bound) check(input map[string]any, size inputSize) error {
	if size.values <= b.free.values && size.bytes <= b.free.bytes && size.number <= b.free.number {
		return nil
	}
	x := growthOf(b.file, treeExtent(input), inputBounds)
	if x == nil {
		return nil
	}
	text := x.text(b.source)
	if pos := x.position(); pos.IsValid() {
		text = fmt.Sprintf("%s (%d:%d)", text, pos.Line(), pos.Column())
	}
	return fmt.Errorf("%w: %s", ErrTooLarge, text)
}

func (x *excess) position() token.Pos {
	if x.node == nil {
		return token.NoPos
	}
	return x.node.Pos()
}

// text says what is too large, with the words of the source.
func (x *excess) text(source string) string {
	const most = 60
	if x.node == nil {
		return "it " + x.what
	}
	from, to := x.node.Pos().Offset(), x.node.End().Offset()
	if from < 0 || to > len(source) || from >= to {
		return "it " + x.what
	}
	text := strings.Join(strings.Fields(source[from:to]), " ")
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text + " " + x.what
}

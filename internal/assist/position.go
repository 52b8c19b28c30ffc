package assist

import (
	"sort"
	"strings"
	"unicode/utf8"
)

// A Position is a place in a text as editors count: from 0, in units of UTF-16.
type Position struct {
	Line      uint `json:"line"`
	Character uint `json:"character"`
}

// A Span is a Range of positions.
type Span struct {
	Start Position `json:"start"`
	End   Position `json:"end"`
}

// A Content is a text, and where its lines begin.
type Content struct {
	Text string

	starts []int
}

// NewContent returns a text with its positions. Half surrogates, which JSON can have, have become U+FFFD.
func NewContent(text string) *Content {
	c := &Content{Text: text, starts: []int{0}}
	for i := range len(text) {
		if text[i] == '\n' || text[i] == '\r' && (i+1 == len(text) || text[i+1] != '\n') {
			c.starts = append(c.starts, i+1)
		}
	}
	return c
}

// Offset returns the offset of a position; one outside of a line or of the text is the closest in it.
func (c *Content) Offset(p Position) int {
	if p.Line >= uint(len(c.starts)) {
		return len(c.Text)
	}
	at := c.starts[p.Line]
	end := len(c.Text)
	if p.Line+1 < uint(len(c.starts)) {
		end = c.starts[p.Line+1]
	}
	line := strings.TrimRight(c.Text[at:end], "\r\n")
	for units := uint(0); line != ""; {
		r, size := utf8.DecodeRuneInString(line)
		if units += unitsOf(r); units > p.Character {
			break
		}
		at, line = at+size, line[size:]
	}
	return at
}

// Position returns the position of an offset.
func (c *Content) Position(offset int) Position {
	offset = max(0, min(offset, len(c.Text)))
	line := sort.SearchInts(c.starts, offset+1) - 1
	p := Position{Line: uint(line)}
	for _, r := range c.Text[c.starts[line]:offset] {
		p.Character += unitsOf(r)
	}
	return p
}

// Span returns the positions of a range.
func (c *Content) Span(r Range) Span {
	return Span{c.Position(r.From), c.Position(r.To)}
}

// unitsOf returns how many units of UTF-16 a character has.
func unitsOf(r rune) uint {
	if r > 0xffff {
		return 2
	}
	return 1
}

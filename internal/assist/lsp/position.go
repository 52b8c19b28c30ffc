package lsp

import (
	"sort"
	"strings"
	"unicode/utf8"

	"github.com/usher-dev/usher/internal/assist"
)

// A content is a text, and where its lines begin.
type content struct {
	text   string
	starts []int
}

// newContent reads a text. Half surrogates, which JSON can have, have become U+FFFD.
func newContent(text string) *content {
	c := &content{text: text, starts: []int{0}}
	for i := range len(text) {
		if text[i] == '\n' || text[i] == '\r' && (i+1 == len(text) || text[i+1] != '\n') {
			c.starts = append(c.starts, i+1)
		}
	}
	return c
}

// offset returns the offset of a position; one outside of a line or of the text is the closest in it.
func (c *content) offset(p position) int {
	if p.Line >= uint(len(c.starts)) {
		return len(c.text)
	}
	at := c.starts[p.Line]
	end := len(c.text)
	if p.Line+1 < uint(len(c.starts)) {
		end = c.starts[p.Line+1]
	}
	line := strings.TrimRight(c.text[at:end], "\r\n")
	for units := uint(0); line != ""; {
		r, size := utf8.DecodeRuneInString(line)
		if units += unitsOf(r); units > p.Character {
			break
		}
		at, line = at+size, line[size:]
	}
	return at
}

// position returns the position of an offset.
func (c *content) position(offset int) position {
	offset = max(0, min(offset, len(c.text)))
	line := sort.SearchInts(c.starts, offset+1) - 1
	p := position{Line: uint(line)}
	for _, r := range c.text[c.starts[line]:offset] {
		p.Character += unitsOf(r)
	}
	return p
}

func (c *content) span(r assist.Range) span {
	return span{c.position(r.From), c.position(r.To)}
}

// unitsOf returns how many units of UTF-16 a character has.
func unitsOf(r rune) uint {
	if r > 0xffff {
		return 2
	}
	return 1
}

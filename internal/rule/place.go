package rule

import (
	"strings"
	"unicode"
)

// A Place is one in a text of several lines. The zero Place is none.
type Place struct {
	// Line and Column count from 1. Columns are characters, not bytes.
	Line   int `json:"line"`
	Column int `json:"column"`
	// Text is the line.
	Text string `json:"text"`
}

// PlaceIn returns a place in a text, whose line and column count from 1. Behind the end of the text,
// and of the blanks at its end, is the place where the text should go on.
func PlaceIn(text string, line, column int) Place {
	text = strings.TrimRightFunc(text, unicode.IsSpace)
	lines := strings.Split(text, "\n")
	if line < 1 || column < 1 {
		return Place{}
	}
	if line > len(lines) {
		line = len(lines)
		column = len([]rune(lines[line-1])) + 1
	}
	in := strings.TrimSuffix(lines[line-1], "\r")
	return Place{Line: line, Column: min(column, len([]rune(in))+1), Text: in}
}

// most limits the characters of a picture.
const most = 100

// Picture is the line with a caret below the place; it is empty without a place. Of a long line it
// is the part around the place.
func (p Place) Picture() string {
	if p.Line == 0 || strings.TrimSpace(p.Text) == "" {
		return ""
	}
	line, at := []rune(p.Text), p.Column-1
	for i, r := range line {
		if !unicode.IsGraphic(r) {
			// Tabs would move the caret, and control characters the cursor.
			line[i] = ' '
		}
	}
	if blanks := len(line) - len([]rune(strings.TrimLeft(string(line), " "))); blanks <= at {
		line, at = line[blanks:], at-blanks
	}
	before, after := "", ""
	if from := at - most/2; len(line) > most && from > 0 {
		before, line, at = "…", line[from:], at-from
	}
	if len(line) > most {
		line, after = line[:most], "…"
	}
	shown := strings.TrimRight(before+string(line)+after, " ")
	return shown + "\n" + strings.Repeat(" ", len([]rune(before))+at) + "^"
}

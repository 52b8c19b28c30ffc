// Package printabletest has the text with which exits are tested: what policies and objects say cannot
// control the terminal that shows it.
package printabletest

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Hostile is text that moves the cursor, changes colors and the title of a terminal, rings its bell,
// reverses its direction, and is not valid UTF-8.
const Hostile = "\x1b[31mno\x1b[0m \x1b]0;title\a \u202eyes\u2066 \u009b2J\u2028\r\x00\x7f bad\xff"

// Controls returns the characters of text that would control a terminal or the direction of text, and what is
// not valid UTF-8. Lines and tabs are none of these.
func Controls(text string) []string {
	var all []string
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		invalid := r == utf8.RuneError && size == 1
		if invalid || !strings.ContainsRune("\n\t", r) && (unicode.IsControl(r) || unicode.In(r, unicode.Bidi_Control, unicode.Zl, unicode.Zp)) {
			all = append(all, text[:size])
		}
		text = text[size:]
	}
	return all
}

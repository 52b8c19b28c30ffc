package format

import (
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Clean returns text on one line, with escapes in place of characters that are not printed, such as
// those that control terminals or reverse the direction of text.
func Clean(text string) string {
	return escaped(text, func(b *strings.Builder, r rune) bool {
		if r != '\n' && r != '\t' && r != '\r' {
			return false
		}
		b.WriteByte(' ')
		return true
	})
}

var painted = regexp.MustCompile("\x1b\\[(?:[012]|3[1236])m")

// Lines is [Clean] of text that commands print: it keeps lines, tabs and the colors of palettes.
func Lines(text string) string {
	if !unprintable(text) {
		return text
	}
	var b strings.Builder
	for {
		at := painted.FindStringIndex(text)
		if at == nil {
			b.WriteString(lines(text))
			return b.String()
		}
		b.WriteString(lines(text[:at[0]]))
		b.WriteString(text[at[0]:at[1]])
		text = text[at[1]:]
	}
}

func lines(text string) string {
	return escaped(text, func(b *strings.Builder, r rune) bool {
		if r != '\n' && r != '\t' {
			return false
		}
		b.WriteRune(r)
		return true
	})
}

func unprintable(text string) bool {
	return strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) || r == utf8.RuneError })
}

// escaped returns text with escapes in place of what is not printed, unless keep writes it.
func escaped(text string, keep func(b *strings.Builder, r rune) bool) string {
	if !unprintable(text) {
		return text
	}
	var b strings.Builder
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		switch {
		case r == utf8.RuneError && size == 1:
			b.WriteString(`\x` + strconv.FormatUint(uint64(text[0]), 16))
		case keep(&b, r):
		case unicode.IsPrint(r):
			b.WriteRune(r)
		default:
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		}
		text = text[size:]
	}
	return b.String()
}

// Package printable shows text that others wrote, such as the names of objects, without characters
// that control terminals, that reverse the direction of text, or that cannot be seen.
package printable

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// lines are the characters that lay out text.
const lines = "\n\t"

// Line returns text on one line, with escapes in place of characters that are not printed.
func Line(text string) string {
	if plain(text, "") {
		return text
	}
	var b strings.Builder
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		if r == '\n' || r == '\t' || r == '\r' {
			b.WriteByte(' ')
		} else {
			b.WriteString(Escaped(text[:size]))
		}
		text = text[size:]
	}
	return b.String()
}

// Lines is [Line] of text that keeps its lines and tabs.
func Lines(text string) string {
	if plain(text, lines) {
		return text
	}
	var b strings.Builder
	for len(text) > 0 {
		_, size := utf8.DecodeRuneInString(text)
		b.WriteString(Escaped(text[:size]))
		text = text[size:]
	}
	return b.String()
}

// Blank returns text on one line, valid UTF-8, with spaces in place of characters that control
// terminals or the direction of text: what becomes part of a response, a status, or a header, which
// others show as it is.
func Blank(text string) string { return strings.TrimSpace(blanked(text, "")) }

// Words is [Blank] with one space between words.
func Words(text string) string { return strings.Join(strings.Fields(Blank(text)), " ") }

// BlankLines is [Blank] of text that keeps its lines and tabs.
func BlankLines(text string) string { return blanked(text, lines) }

// blanked returns text with spaces in place of control characters other than some.
func blanked(text, others string) string {
	if plain(text, others) {
		return text
	}
	return strings.Map(func(r rune) rune {
		if control := r < ' ' || r >= 0x7f && (unicode.IsControl(r) || unicode.In(r, unicode.Zl, unicode.Zp, unicode.Bidi_Control)); control && !strings.ContainsRune(others, r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, string(utf8.RuneError)))
}

// Cut returns at most limit bytes of text: if that is less than all, whole characters and an ellipsis.
func Cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	end := max(limit-len(ellipsis), 0)
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + ellipsis
}

// Excerpt is [Cut] of [BlankLines]: what others show as it is, such as a response or a status.
func Excerpt(text string, limit int) string { return Cut(BlankLines(text), limit) }

// CutRunes returns at most limit characters of text, of which the last is an ellipsis if that is less than all.
func CutRunes(text string, limit int) string {
	runes := 0
	for i := range text {
		if runes++; runes == limit && utf8.RuneCountInString(text[i:]) > 1 {
			return text[:i] + ellipsis
		}
	}
	return text
}

const ellipsis = "…"

// JSON returns JSON with escapes in place of characters that are not printed. It means the same.
func JSON(encoded []byte) []byte {
	return []byte(Lines(string(encoded)))
}

// plain reports whether all of text is printed, or among others.
func plain(text, others string) bool {
	for i := range len(text) {
		if c := text[i]; (c < ' ' || c > '~') && strings.IndexByte(others, c) < 0 {
			return !strings.ContainsFunc(text[i:], func(r rune) bool {
				return r == utf8.RuneError || !Printed(r) && !strings.ContainsRune(others, r)
			})
		}
	}
	return true
}

// Printed reports whether a character is printed as it is: a space, or one that can be seen. Lines and
// tabs are not.
func Printed(r rune) bool { return unicode.IsPrint(r) }

// Escaped returns one character, or a byte that is none, as it is printed. Lines and tabs stay. Escapes
// of characters that JSON may contain are those of JSON.
func Escaped(character string) string {
	r, size := utf8.DecodeRuneInString(character)
	switch {
	case r == utf8.RuneError && size <= 1:
		return fmt.Sprintf(`\x%02x`, character)
	case Printed(r) || strings.ContainsRune(lines, r):
		return character
	case r == '\r':
		return `\r`
	case r == '\a':
		return `\a`
	case r < ' ':
		return fmt.Sprintf(`\x%02x`, r)
	case r > 0xffff:
		high, low := utf16.EncodeRune(r)
		return fmt.Sprintf(`\u%04x\u%04x`, high, low)
	}
	return fmt.Sprintf(`\u%04x`, r)
}

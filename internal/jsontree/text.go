package jsontree

import (
	"encoding/binary"
	"math/bits"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// key reads a key and the colon after it.
func (d *decoder) key() (string, error) {
	if d.at >= len(d.data) || d.data[d.at] != '"' {
		return "", d.syntax("expected a key")
	}
	key, err := d.string()
	if err != nil {
		return "", err
	}
	if d.peek() != ':' {
		return "", d.syntax("expected a colon after a key")
	}
	d.at++
	return key, nil
}

// string reads a string.
func (d *decoder) string() (string, error) {
	start := d.at
	end, plain, err := Quoted(d.data, start)
	if d.at = end; err != nil {
		return "", err
	}
	if plain {
		return d.text[start+1 : end-1], nil
	}
	return unquote(d.data[start+1 : end-1]), nil
}

// ordinary counts the leading bytes of data that need no escape: ASCII without quotes, backslashes
// and control characters.
func ordinary(data []byte) int {
	n := 0
	for ; len(data)-n >= 8; n += 8 {
		if stop := special(binary.LittleEndian.Uint64(data[n:])); stop != 0 {
			return n + bits.TrailingZeros64(stop)/8
		}
	}
	for n < len(data) && data[n] >= ' ' && data[n] < utf8.RuneSelf && data[n] != '"' && data[n] != '\\' {
		n++
	}
	return n
}

// special sets the top bit of the lowest byte of a word that needs an escape; the bits above it may
// be wrong. It is 0 if there is none.
func special(w uint64) uint64 {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	// For a word with a byte less than n, w - n*ones has the top bit of the lowest such byte set.
	quote, escape := w^'"'*ones, w^'\\'*ones
	return ((w - ' '*ones) | (quote - ones) | (escape - ones) | w) & tops
}

// escape returns the length of the escape that text begins with, 0 if it is none.
func escape(text []byte) int {
	if len(text) < 2 {
		return 0
	}
	switch text[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		if len(text) >= 6 && hex(text[2:6]) >= 0 {
			return 6
		}
	}
	return 0
}

// hex returns the value of hexadecimal digits, or -1.
func hex(digits []byte) rune {
	var r rune
	for _, c := range digits {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			c = c | 0x20 - 'a' + 10
		default:
			return -1
		}
		r = r<<4 | rune(c)
	}
	return r
}

// unquote returns the value of the inside of a string whose escapes are valid.
func unquote(inside []byte) string {
	text, _ := AppendUnquoted(make([]byte, 0, len(inside)+2*utf8.UTFMax), inside)
	return string(text)
}

// AppendUnquoted appends the value of the inside of a string whose escapes are valid. Invalid bytes
// and escapes become replacement characters; sound reports that there are none.
func AppendUnquoted(to, inside []byte) (text []byte, sound bool) {
	sound = true
	for {
		n := ordinary(inside)
		to, inside = append(to, inside[:n]...), inside[n:]
		switch {
		case len(inside) == 0:
			return to, sound
		case inside[0] == '\\':
			r, rest, valid := unescape(inside)
			to, inside, sound = utf8.AppendRune(to, r), rest, sound && valid
		default:
			r, size := utf8.DecodeRune(inside)
			to, inside, sound = utf8.AppendRune(to, r), inside[size:], sound && (r != utf8.RuneError || size > 1)
		}
	}
}

// unescape returns the character of the escape that text begins with, or the two escapes
// of a surrogate pair, and what follows. Half a pair becomes a replacement character, and is
// not valid.
func unescape(text []byte) (r rune, rest []byte, valid bool) {
	switch c := text[1]; c {
	case 'b':
		return '\b', text[2:], true
	case 'f':
		return '\f', text[2:], true
	case 'n':
		return '\n', text[2:], true
	case 'r':
		return '\r', text[2:], true
	case 't':
		return '\t', text[2:], true
	case 'u':
	default:
		return rune(c), text[2:], true
	}
	r = hex(text[2:6])
	text = text[6:]
	if !utf16.IsSurrogate(r) {
		return r, text, true
	}
	if len(text) >= 6 && text[0] == '\\' && text[1] == 'u' {
		if pair := utf16.DecodeRune(r, hex(text[2:6])); pair != unicode.ReplacementChar {
			return pair, text[6:], true
		}
	}
	return unicode.ReplacementChar, text, false
}

package jsontree

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"unicode/utf8"
)

// Quoted skips the string that begins at data[i]. It is plain if it has no escapes and only ASCII.
func Quoted(data []byte, i int) (end int, plain bool, err error) {
	plain = true
	for i++; ; {
		if i+8 <= len(data) {
			stop := special(binary.LittleEndian.Uint64(data[i:]))
			if stop == 0 {
				i += 8
				continue
			}
			i += bits.TrailingZeros64(stop) / 8
		}
		if i >= len(data) {
			return i, false, Syntax(data, i, "")
		}
		switch c := data[i]; {
		case c == '"':
			return i + 1, plain, nil
		case c == '\\':
			n := 2
			if i+1 >= len(data) || data[i+1] != '"' {
				if n = escape(data[i:]); n == 0 {
					return i, false, Syntax(data, i, "an escape is not valid")
				}
			}
			plain = false
			i += n
		case c < ' ':
			return i, false, Syntax(data, i, "a control character stands in a string")
		case c >= utf8.RuneSelf:
			plain = false
			i++
		default:
			i++
		}
	}
}

// number steps over the number that begins at data[i], and reports whether it has neither
// dot nor exponent.
func number(data []byte, i int) (end int, whole bool, err error) {
	if i < len(data) && data[i] == '-' {
		i++
	}
	switch {
	case i < len(data) && data[i] == '0':
		i++
	case i < len(data) && data[i] >= '1' && data[i] <= '9':
		i += digits(data[i:])
	default:
		return i, false, Syntax(data, i, "expected a value")
	}
	whole = true
	if i < len(data) && data[i] == '.' {
		whole = false
		n := digits(data[i+1:])
		if i += 1 + n; n == 0 {
			return i, false, Syntax(data, i, "expected a digit")
		}
	}
	if i < len(data) && data[i]|0x20 == 'e' {
		whole = false
		if i++; i < len(data) && (data[i] == '+' || data[i] == '-') {
			i++
		}
		n := digits(data[i:])
		if i += n; n == 0 {
			return i, false, Syntax(data, i, "expected a digit")
		}
	}
	return i, whole, nil
}

// digits counts leading digits of data.
func digits(data []byte) int {
	n := 0
	for n < len(data) && data[n] >= '0' && data[n] <= '9' {
		n++
	}
	return n
}

// Syntax returns the error for an unexpected character at data[at].
func Syntax(data []byte, at int, what string) error {
	if at >= len(data) {
		return fmt.Errorf("JSON ends too early, after %d bytes", len(data))
	}
	return fmt.Errorf("JSON is broken at byte %d, %q: %s", at, data[at], what)
}

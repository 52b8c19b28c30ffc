package jsontree

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// ErrTooDeep is the error for values that are nested too deep.
var ErrTooDeep = errors.New("values are nested too deep")

// Check returns where the value ends that begins at data[at], after white space maybe. It
// checks the grammar, but not whether text is UTF-8: decoding repairs that. The value is
// sound if all numbers in it can be represented, and so [Decode] cannot fail. Containers
// may be nested up to depth levels; beyond that the error is [ErrTooDeep].
func Check(data []byte, at, depth int) (end int, sound bool, err error) {
	s := skipper{data: data, depth: depth}
	end, err = s.value(at)
	return end, !s.excessive, err
}

// A skipper steps over values. It does not recurse.
type skipper struct {
	data  []byte
	depth int
	// excessive tells that a number was out of range.
	excessive bool
}

// What a skipper expects.
type expected int

const (
	aValue expected = iota
	aKey
	// aNext is a comma or the end of the container.
	aNext
)

func (s *skipper) value(i int) (int, error) {
	var room [32]byte
	open := room[:0]
	data := s.data
	var err error
	for expect := aValue; ; {
		for i < len(data) && data[i] <= ' ' && space(data[i]) {
			i++
		}
		if i >= len(data) {
			return i, Syntax(data, i, "")
		}
		switch c := data[i]; {
		case expect == aNext && c == ',':
			i++
			if expect = aValue; open[len(open)-1] == '{' {
				expect = aKey
			}
			continue
		case expect == aNext:
			// The closing bracket of both kinds is two after the opening one.
			if c != open[len(open)-1]+2 {
				return i, Syntax(data, i, "a comma or the end is wanted after a value")
			}
			i++
			open = open[:len(open)-1]
		case expect == aKey:
			if i, err = s.key(i); err != nil {
				return i, err
			}
			expect = aValue
			continue
		case c == '"':
			if i, _, err = Quoted(data, i); err != nil {
				return i, err
			}
		case c == '{' || c == '[':
			if len(open) == s.depth {
				return i, ErrTooDeep
			}
			i++
			for i < len(data) && space(data[i]) {
				i++
			}
			if i < len(data) && data[i] == c+2 {
				i++
				break
			}
			open = append(open, c)
			if expect = aValue; c == '{' {
				expect = aKey
			}
			continue
		default:
			if i, err = s.scalar(i); err != nil {
				return i, err
			}
		}
		if expect = aNext; len(open) == 0 {
			return i, nil
		}
	}
}

// key steps over a key and the colon after it.
func (s *skipper) key(i int) (int, error) {
	if s.data[i] != '"' {
		return i, Syntax(s.data, i, "a key is wanted")
	}
	i, _, err := Quoted(s.data, i)
	if err != nil {
		return i, err
	}
	for i < len(s.data) && space(s.data[i]) {
		i++
	}
	if i >= len(s.data) || s.data[i] != ':' {
		return i, Syntax(s.data, i, "a colon is wanted after a key")
	}
	return i + 1, nil
}

// scalar steps over a number or a word.
func (s *skipper) scalar(i int) (int, error) {
	word := ""
	switch s.data[i] {
	case 't':
		word = "true"
	case 'f':
		word = "false"
	case 'n':
		word = "null"
	default:
		end, whole, err := number(s.data, i)
		// Without an exponent it takes more than 300 digits to be out of range.
		if err == nil && (!whole || end-i > 300) {
			_, outOfRange := float(string(s.data[i:end]))
			s.excessive = s.excessive || outOfRange != nil
		}
		return end, err
	}
	if len(s.data)-i < len(word) || string(s.data[i:i+len(word)]) != word {
		return i, Syntax(s.data, i, "a value is wanted")
	}
	return i + len(word), nil
}

// pass steps over the value that begins at data[i], which is sound.
func pass(data []byte, i int) int {
	switch data[i] {
	case '"':
		return passText(data, i)
	case '{', '[':
	default:
		for i < len(data) && strings.IndexByte(",]} \t\n\r", data[i]) < 0 {
			i++
		}
		return i
	}
	for depth := 0; ; {
		switch data[i] {
		case '"':
			i = passText(data, i)
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
		i++
	}
}

// passText steps over the string that begins at data[i], which is sound.
func passText(data []byte, i int) int {
	for i++; ; {
		i += ordinary(data[i:])
		switch data[i] {
		case '"':
			return i + 1
		case '\\':
			i += 2
		default:
			i++
		}
	}
}

func space(c byte) bool { return c == ' ' || c == '\n' || c == '\t' || c == '\r' }

// Quoted steps over the string that begins at data[i]. It is plain if it says what stands
// there: nothing is escaped, and all is ASCII.
func Quoted(data []byte, i int) (end int, plain bool, err error) {
	plain = true
	for i++; ; {
		i += ordinary(data[i:])
		if i >= len(data) {
			return i, false, Syntax(data, i, "")
		}
		switch c := data[i]; {
		case c == '"':
			return i + 1, plain, nil
		case c == '\\':
			n := escape(data[i:])
			if n == 0 {
				return i, false, Syntax(data, i, "an escape is not valid")
			}
			plain = false
			i += n
		case c < ' ':
			return i, false, Syntax(data, i, "a control character stands in a string")
		default:
			plain = false
			for i < len(data) && data[i] >= utf8.RuneSelf {
				i++
			}
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
		return i, false, Syntax(data, i, "a value is wanted")
	}
	whole = true
	if i < len(data) && data[i] == '.' {
		whole = false
		n := digits(data[i+1:])
		if i += 1 + n; n == 0 {
			return i, false, Syntax(data, i, "a digit is wanted")
		}
	}
	if i < len(data) && data[i]|0x20 == 'e' {
		whole = false
		if i++; i < len(data) && (data[i] == '+' || data[i] == '-') {
			i++
		}
		n := digits(data[i:])
		if i += n; n == 0 {
			return i, false, Syntax(data, i, "a digit is wanted")
		}
	}
	return i, whole, nil
}

// digits counts the digits that data begins with.
func digits(data []byte) int {
	n := 0
	for n < len(data) && data[n] >= '0' && data[n] <= '9' {
		n++
	}
	return n
}

// Syntax returns the error that something else is wanted at data[at].
func Syntax(data []byte, at int, what string) error {
	if at >= len(data) {
		return fmt.Errorf("JSON ends too early, after %d bytes", len(data))
	}
	return fmt.Errorf("JSON is broken at byte %d, %q: %s", at, data[at], what)
}

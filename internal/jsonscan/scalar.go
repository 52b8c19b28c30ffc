package jsonscan

import (
	"bytes"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/usher-dev/usher/internal/jsontree"
)

// text reads a string and returns what it says.
func (s *Scanner) text() ([]byte, error) {
	raw, plain, err := s.quoted()
	if err != nil {
		return nil, err
	}
	inside := raw[1 : len(raw)-1]
	if plain {
		return inside, nil
	}
	if bytes.IndexByte(inside, '\\') < 0 && utf8.Valid(inside) {
		return inside, nil
	}
	return s.unescape(inside), nil
}

// toString returns what text has just returned as a string.
func (s *Scanner) toString(text []byte) string {
	// Unless there are escapes in it, it stands before the quote that was read last, or
	// before that and a colon.
	for end := s.at - 1; s.shared != "" && end >= s.at-2; end-- {
		if start := end - len(text); start >= 0 && s.shared[start:end] == string(text) {
			return s.shared[start:end]
		}
	}
	return string(text)
}

// unescape returns what stands between quotes with its escapes, which are known to be
// complete, resolved. What is no text becomes U+FFFD.
func (s *Scanner) unescape(inside []byte) []byte {
	text := make([]byte, 0, len(inside))
	for len(inside) > 0 {
		if inside[0] != '\\' {
			r, size := utf8.DecodeRune(inside)
			s.replaced = s.replaced || r == utf8.RuneError && size == 1
			text = utf8.AppendRune(text, r)
			inside = inside[size:]
			continue
		}
		if inside[1] != 'u' {
			text = append(text, unescaped(inside[1]))
			inside = inside[2:]
			continue
		}
		r := codeUnit(inside)
		inside = inside[6:]
		if utf16.IsSurrogate(r) {
			pair := utf8.RuneError
			if bytes.HasPrefix(inside, []byte(`\u`)) {
				pair = utf16.DecodeRune(r, codeUnit(inside))
			}
			if r = pair; r == utf8.RuneError {
				s.replaced = true
			} else {
				inside = inside[6:]
			}
		}
		text = utf8.AppendRune(text, r)
	}
	return text
}

// codeUnit returns the UTF-16 code unit that a \u escape stands for.
func codeUnit(escape []byte) rune {
	unit, _ := strconv.ParseUint(string(escape[2:6]), 16, 16)
	return rune(unit)
}

func unescaped(c byte) byte {
	switch c {
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	}
	return c
}

// quoted steps over a string. It is plain if it is all ASCII, without escapes.
func (s *Scanner) quoted() (raw []byte, plain bool, err error) {
	start := s.at
	s.at, plain, err = jsontree.Quoted(s.data, start)
	if err != nil {
		return nil, false, err
	}
	return s.data[start:s.at], plain, nil
}

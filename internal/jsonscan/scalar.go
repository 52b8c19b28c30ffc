package jsonscan

import (
	"bytes"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
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
	start, data := s.at, s.data
	plain = true
	for i := start + 1; i < len(data); i++ {
		c := data[i]
		if c == '"' {
			s.at = i + 1
			return data[start : i+1], plain, nil
		}
		if c != '\\' && c >= ' ' && c < utf8.RuneSelf {
			continue
		}
		if c < ' ' {
			s.at = i
			return nil, false, s.syntax("a control character stands in a string")
		}
		plain = false
		if c == '\\' {
			n := escapeLength(data[i:])
			if n == 0 {
				s.at = i
				return nil, false, s.syntax("an escape is not valid")
			}
			i += n - 1
		}
	}
	s.at = len(data)
	return nil, false, s.syntax("")
}

// escapeLength returns the length of the escape that text begins with, 0 if it is none.
func escapeLength(text []byte) int {
	if len(text) < 2 {
		return 0
	}
	if text[1] != 'u' {
		if bytes.IndexByte([]byte(`"\/bfnrt`), text[1]) < 0 {
			return 0
		}
		return 2
	}
	if len(text) < 6 {
		return 0
	}
	for _, c := range text[2:6] {
		if (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'f') {
			return 0
		}
	}
	return 6
}

func (s *Scanner) literal(text string) error {
	if !bytes.HasPrefix(s.data[s.at:], []byte(text)) {
		return s.syntax("a value is wanted")
	}
	s.at += len(text)
	return nil
}

func (s *Scanner) number() error {
	if s.byteAt(s.at) == '-' {
		s.at++
	}
	switch c := s.byteAt(s.at); {
	case c == '0':
		s.at++
	case c >= '1' && c <= '9':
		s.digits()
	default:
		return s.syntax("a value is wanted")
	}
	if s.byteAt(s.at) == '.' {
		s.at++
		if !s.digits() {
			return s.syntax("a digit is wanted")
		}
	}
	if s.byteAt(s.at)|0x20 == 'e' {
		s.at++
		if c := s.byteAt(s.at); c == '+' || c == '-' {
			s.at++
		}
		if !s.digits() {
			return s.syntax("a digit is wanted")
		}
	}
	return nil
}

func (s *Scanner) digits() bool {
	start := s.at
	for c := s.byteAt(s.at); c >= '0' && c <= '9'; c = s.byteAt(s.at) {
		s.at++
	}
	return s.at > start
}

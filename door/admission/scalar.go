package admission

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

// text reads a string and returns what it says.
func (s *scanner) text() ([]byte, error) {
	raw, plain, err := s.quoted()
	if err != nil {
		return nil, err
	}
	if inside := raw[1 : len(raw)-1]; plain && utf8.Valid(inside) {
		return inside, nil
	}
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		return nil, err
	}
	return []byte(text), nil
}

// quoted steps over a string. It is plain if there are no escapes in it.
func (s *scanner) quoted() (raw []byte, plain bool, err error) {
	start := s.at
	plain = true
	for i := start + 1; i < len(s.data); i++ {
		switch c := s.data[i]; {
		case c == '"':
			s.at = i + 1
			return s.data[start:s.at], plain, nil
		case c == '\\':
			plain = false
			n := escapeLength(s.data[i:])
			if n == 0 {
				s.at = i
				return nil, false, s.syntax("an escape is not valid")
			}
			i += n - 1
		case c < ' ':
			s.at = i
			return nil, false, s.syntax("a control character stands in a string")
		}
	}
	s.at = len(s.data)
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

func (s *scanner) literal(text string) error {
	if !bytes.HasPrefix(s.data[s.at:], []byte(text)) {
		return s.syntax("a value is wanted")
	}
	s.at += len(text)
	return nil
}

func (s *scanner) number() error {
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

func (s *scanner) digits() bool {
	start := s.at
	for c := s.byteAt(s.at); c >= '0' && c <= '9'; c = s.byteAt(s.at) {
		s.at++
	}
	return s.at > start
}

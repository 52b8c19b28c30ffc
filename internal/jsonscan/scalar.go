package jsonscan

import (
	"bytes"
	"unicode/utf8"

	"github.com/usher-dev/usher/internal/jsontree"
)

// text reads a string and returns its value.
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
	if err := s.spend(2 * len(inside)); err != nil {
		return nil, err
	}
	text, sound := jsontree.AppendUnquoted(make([]byte, 0, len(inside)), inside)
	s.replaced = s.replaced || !sound
	return text, nil
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

package stream

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
)

const (
	// chunk is how much is read at once, at least.
	chunk = 64 << 10
	// keep is how large a buffer may be to be kept after an object that needed it.
	keep = 1 << 20
)

// A lexer finds the end of a JSON value. It does not check the value: a decoder does.
type lexer struct {
	depth           int
	begun           bool
	quoted, escaped bool
}

// scan steps over more of the value and reports whether it ends in data. A number or a word ends
// before what follows it.
func (l *lexer) scan(data []byte) (n int, done bool) { //nolint:gocognit // one step for each byte of a stream, without calls
	for i := 0; i < len(data); i++ {
		c := data[i]
		switch {
		case l.escaped:
			l.escaped = false
		case l.quoted:
			for c != '"' && c != '\\' {
				if i++; i == len(data) {
					return i, false
				}
				c = data[i]
			}
			l.escaped, l.quoted = c == '\\', c != '"'
			if !l.quoted && l.depth == 0 {
				return i + 1, true
			}
		case c == '"':
			if l.depth == 0 && l.begun {
				return i, true
			}
			l.quoted = true
		case c == '{', c == '[':
			if l.depth == 0 && l.begun {
				return i, true
			}
			l.depth++
		case c == '}', c == ']':
			if l.depth == 0 {
				return i, true
			}
			if l.depth--; l.depth == 0 {
				return i + 1, true
			}
		case l.depth == 0 && (c == ',' || c == ':' || blank(c)):
			return i, true
		}
		l.begun = true
	}
	return len(data), false
}

func blank(c byte) bool { return c == ' ' || c == '\n' || c == '\t' || c == '\r' }

// A scanner splits a stream of JSON into values. It keeps one of them at a time.
type scanner struct {
	from io.Reader
	// max is how many bytes a value may have.
	max int
	// buffer[at:] has been read and is not used yet.
	buffer []byte
	at     int
}

// more reads more of the stream after the n bytes that are still needed.
func (s *scanner) more() error {
	rest := s.buffer[s.at:]
	large := cap(s.buffer) > keep && len(rest) < keep/4
	if cap(s.buffer)-len(s.buffer) < chunk/2 || large {
		buffer := s.buffer[:0]
		if cap(buffer) < len(rest)+chunk || large {
			buffer = make([]byte, 0, 2*len(rest)+chunk)
		}
		s.buffer, s.at = append(buffer, rest...), 0
	}
	for range 100 {
		n, err := s.from.Read(s.buffer[len(s.buffer):cap(s.buffer)])
		s.buffer = s.buffer[:len(s.buffer)+n]
		if n > 0 {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return io.ErrNoProgress
}

// peek returns the next byte that is no white space, without using it.
func (s *scanner) peek() (byte, error) {
	for {
		for ; s.at < len(s.buffer); s.at++ {
			if c := s.buffer[s.at]; !blank(c) {
				return c, nil
			}
		}
		if err := s.more(); err != nil {
			return 0, err
		}
	}
}

// value returns the next value, which may be used until the next call. If there is none, the error
// is io.EOF.
func (s *scanner) value() ([]byte, error) {
	if _, err := s.peek(); err != nil {
		return nil, err
	}
	var l lexer
	for n := 0; ; {
		m, done := l.scan(s.buffer[s.at+n:])
		if n += m; n > s.max {
			return nil, lost{fmt.Errorf("an object has more than %d MiB", s.max>>20)}
		}
		if done {
			value := s.buffer[s.at : s.at+n]
			s.at += n
			if n == 0 {
				return nil, lost{fmt.Errorf("the stream is no JSON: unexpected %q", s.buffer[s.at])}
			}
			return value, nil
		}
		if err := s.more(); err != nil {
			return nil, atEnd(err)
		}
	}
}

// expect uses a byte that has to come next.
func (s *scanner) expect(want byte) error {
	c, err := s.peek()
	if err != nil {
		return err
	}
	if c != want {
		return lost{fmt.Errorf("the stream is no JSON: expected %q, got %q", want, c)}
	}
	s.at++
	return nil
}

// object reads an object and calls field for each key, which reads the value.
func (s *scanner) object(field func(key string) error) error {
	if err := s.expect('{'); err != nil {
		return err
	}
	return s.members('}', func() error {
		name, err := s.value()
		if err != nil {
			return err
		}
		key := text(name)
		if err := s.expect(':'); err != nil {
			return err
		}
		return field(key)
	})
}

// array reads an array, or null, and calls item with each value.
func (s *scanner) array(item func(value []byte) error) error {
	if c, err := s.peek(); err != nil || c != '[' {
		value, err := s.value()
		if err == nil && string(value) != "null" {
			err = lost{fmt.Errorf("the items of a list are %.20q", value)}
		}
		return err
	}
	s.at++
	return s.members(']', func() error {
		value, err := s.value()
		if err != nil {
			return err
		}
		return item(value)
	})
}

// members calls member, which reads one, until the bracket at the end.
func (s *scanner) members(bracket byte, member func() error) error {
	for n := 0; ; n++ {
		c, err := s.peek()
		if err != nil {
			return err
		}
		if c == bracket {
			s.at++
			return nil
		}
		if n > 0 {
			if err := s.expect(','); err != nil {
				return err
			}
		}
		if err := member(); err != nil {
			return err
		}
	}
}

// find returns the value at a path of keys in an object; nil if there is none. The object does
// not change, and is not checked.
func find(object []byte, keys ...string) []byte {
	at := object
	for _, key := range keys {
		if at = field(at, key); at == nil {
			return nil
		}
	}
	if at == nil {
		return nil
	}
	var l lexer
	n, _ := l.scan(at)
	return at[:n]
}

// field returns what begins with the value of a key of the object that data begins with.
func field(data []byte, key string) []byte {
	if len(data) == 0 || data[0] != '{' {
		return nil
	}
	for data = data[1:]; ; {
		data = bytes.TrimLeft(data, ", \t\r\n")
		var l lexer
		n, done := l.scan(data)
		if !done || n < 2 || data[0] != '"' {
			return nil
		}
		name := data[1 : n-1]
		if data = bytes.TrimLeft(data[n:], ": \t\r\n"); string(name) == key {
			return data
		}
		l = lexer{}
		if n, done = l.scan(data); !done || n == 0 {
			return nil
		}
		data = data[n:]
	}
}

// text is what a JSON string says; empty if value is none.
func text(value []byte) string {
	if n := len(value); n >= 2 && value[0] == '"' && bytes.IndexByte(value, '\\') < 0 {
		return string(value[1 : n-1])
	}
	var text string
	if json.Unmarshal(value, &text) != nil {
		return ""
	}
	return text
}

package admission

import (
	"bytes"
	"errors"
	"fmt"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/jsontree"
)

// maxDepth is how deep values may be nested. No object of Kubernetes comes near, and what
// decides can recurse into one without a thought.
const maxDepth = 1000

var errTooDeep = fmt.Errorf("values are nested more than %d levels deep", maxDepth)

// A scanner reads JSON in one pass, taking out what is wanted and checking the grammar of
// the rest. It copies strings only.
type scanner struct {
	data []byte
	at   int
	// open are the brackets around at.
	open []byte
}

// object reads an object and calls field for each key; field reads the value. A key that
// comes twice is an error: somebody else who reads the review may choose the other value.
func (s *scanner) object(field func(s *scanner, key []byte) error) error {
	if err := s.want('{', "an object"); err != nil {
		return err
	}
	if err := s.push('{'); err != nil {
		return err
	}
	var keys keySet
	for s.peek() != '}' || keys.n > 0 {
		key, err := s.key()
		if err != nil {
			return err
		}
		if !keys.add(key) {
			return within(key, &fieldError{what: "is there twice"})
		}
		if err := field(s, key); err != nil {
			return within(key, err)
		}
		if s.peek() != ',' {
			break
		}
		s.at++
	}
	return s.pop('}')
}

// array reads an array and calls item at the start of each value, which reads it.
func (s *scanner) array(item func(s *scanner) error) error {
	if err := s.want('[', "an array"); err != nil {
		return err
	}
	if err := s.push('['); err != nil {
		return err
	}
	for more := s.peek() != ']'; more; {
		if err := item(s); err != nil {
			return err
		}
		if more = s.peek() == ','; more {
			s.at++
		}
	}
	return s.pop(']')
}

// string reads a string, or null, which leaves the target alone.
func (s *scanner) string(target *string) error {
	if s.null() {
		return nil
	}
	if err := s.want('"', "a string"); err != nil {
		return err
	}
	text, err := s.text()
	if err == nil {
		*target = string(text)
	}
	return err
}

// bool reads a boolean, or null, which leaves the target alone.
func (s *scanner) bool(target *bool) error {
	if s.null() {
		return nil
	}
	if c := s.peek(); c != 't' && c != 'f' {
		return s.wrong("a boolean")
	}
	raw, err := s.value()
	*target = len(raw) == len("true")
	return err
}

// raw reads an object, or null, without looking inside.
func (s *scanner) raw(target **usher.Object) error {
	if s.null() {
		return nil
	}
	if err := s.want('{', "an object"); err != nil {
		return err
	}
	start := s.at
	sound, err := s.step()
	switch {
	case err != nil:
		return err
	case sound:
		*target = usher.SoundObject(s.data[start:s.at])
	default:
		*target = usher.RawObject(s.data[start:s.at])
	}
	return nil
}

// value steps over one value of any kind and returns its text.
func (s *scanner) value() ([]byte, error) {
	s.peek()
	start := s.at
	_, err := s.step()
	return s.data[start:s.at], err
}

// step steps over one value, and reports whether it can be decoded.
func (s *scanner) step() (sound bool, err error) {
	s.at, sound, err = jsontree.Check(s.data, s.at, maxDepth-len(s.open))
	if errors.Is(err, jsontree.ErrTooDeep) {
		err = errTooDeep
	}
	return sound, err
}

// key reads a key and the colon after it.
func (s *scanner) key() ([]byte, error) {
	if s.peek() != '"' {
		return nil, s.syntax("a key is wanted")
	}
	key, err := s.text()
	if err != nil {
		return nil, err
	}
	return key, s.colon()
}

func (s *scanner) colon() error {
	if s.peek() != ':' {
		return s.syntax("a colon is wanted after a key")
	}
	s.at++
	return nil
}

// peek steps over white space and returns the byte that follows.
func (s *scanner) peek() byte {
	for s.at < len(s.data) {
		switch c := s.data[s.at]; c {
		case ' ', '\t', '\n', '\r':
			s.at++
		default:
			return c
		}
	}
	return 0
}

func (s *scanner) push(bracket byte) error {
	if len(s.open) == maxDepth {
		return errTooDeep
	}
	s.at++
	s.open = append(s.open, bracket)
	return nil
}

func (s *scanner) pop(bracket byte) error {
	if s.peek() != bracket {
		return s.syntax("a comma or the end is wanted after a value")
	}
	s.at++
	s.open = s.open[:len(s.open)-1]
	return nil
}

// null steps over null, if that is what comes.
func (s *scanner) null() bool {
	if s.peek() != 'n' || !bytes.HasPrefix(s.data[s.at:], []byte("null")) {
		return false
	}
	s.at += len("null")
	return true
}

// text reads a string and returns what it says.
func (s *scanner) text() (text []byte, err error) {
	text, s.at, err = jsontree.Text(s.data, s.at)
	return text, err
}

// want reports whether a value begins with c, and so is what it should be.
func (s *scanner) want(c byte, what string) error {
	if s.peek() != c {
		return s.wrong(what)
	}
	return nil
}

// end reports what comes after the value that was everything.
func (s *scanner) end() error {
	if s.peek(); s.at < len(s.data) {
		return s.syntax("nothing more is wanted")
	}
	return nil
}

func (s *scanner) syntax(what string) error { return jsontree.Syntax(s.data, s.at, what) }

func (s *scanner) wrong(what string) error {
	got := ""
	switch s.peek() {
	case '{':
		got = "an object"
	case '[':
		got = "an array"
	case '"':
		got = "a string"
	case 't', 'f':
		got = "a boolean"
	case 'n':
		got = "null"
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		got = "a number"
	default:
		return s.syntax("a value is wanted")
	}
	return &fieldError{what: "is " + got + ": " + what + " is wanted"}
}

// A fieldError is what is wrong with a field that is valid JSON.
type fieldError struct {
	path string
	what string
}

func (e *fieldError) Error() string {
	if e.path == "" {
		return "body " + e.what
	}
	return e.path + " " + e.what
}

// within adds to a field's path the key that it was found under.
func within(key []byte, err error) error {
	if e, ok := err.(*fieldError); ok {
		name := clip(string(key))
		if e.path != "" {
			name += "." + e.path
		}
		return &fieldError{path: name, what: e.what}
	}
	return err
}

// A keySet is the keys of an object so far.
type keySet struct {
	few  [16][]byte
	n    int
	many map[string]struct{}
}

// add reports whether key is new.
func (k *keySet) add(key []byte) bool {
	if k.n == len(k.few) {
		k.many = make(map[string]struct{}, 2*len(k.few))
		for _, earlier := range k.few {
			k.many[string(earlier)] = struct{}{}
		}
	}
	if k.n++; k.many != nil {
		_, twice := k.many[string(key)]
		k.many[string(key)] = struct{}{}
		return !twice
	}
	for _, earlier := range k.few[:k.n-1] {
		if bytes.Equal(earlier, key) {
			return false
		}
	}
	k.few[k.n-1] = key
	return true
}

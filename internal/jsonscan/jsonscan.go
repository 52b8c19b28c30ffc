// Package jsonscan reads JSON in one pass: it extracts some values and checks the syntax of the
// rest. It does not recurse into values that it skips. Keys are case-sensitive, and an Object whose
// fields are read may not have one of them twice.
package jsonscan

import (
	"errors"
	"fmt"

	"github.com/usher-dev/usher/internal/jsontree"
)

// MaxDepth is how deep values may be nested. No object of Kubernetes comes near, and what
// decides can recurse into one without a thought.
const MaxDepth = 1000

// ErrTooDeep is the error for values that are nested deeper than [MaxDepth].
var ErrTooDeep = fmt.Errorf("values are nested more than %d levels deep", MaxDepth)

// A Scanner reads one JSON value. Its methods read the next value; null is a missing value. It is
// not safe for concurrent use.
type Scanner struct {
	cursor

	// shared is data as a string, if strings are parts of it.
	shared string
	// replaced reports that a string had invalid text.
	replaced bool
	// watch is called with the memory that values take; spent is what has not been reported yet, in
	// bytes.
	watch jsontree.Watch
	spent int
}

// The memory of values, in bytes: a string in a list or a name in a map while they grow, and a key
// that is kept to find duplicates.
const (
	itemWeight = 48
	nameWeight = 160
	keyWeight  = 128
	// skipWeight is the stack of one level of nesting.
	skipWeight = 1024
)

// watched is how much is spent between two calls of a watch.
const watched = 64 << 10

// Reset makes s scan data, which it does not change, and keeps the buffers. If shared is empty,
// strings are copied; otherwise it is data as a string: strings without escapes are parts of it,
// and keep all of it in memory.
func (s *Scanner) Reset(data []byte, shared string) {
	*s = Scanner{cursor: cursor{data: data, open: s.open[:0]}, shared: shared}
}

// Watch makes s call watch, while it reads and in [Scanner.End], with the memory of the values and
// of the objects that it skipped, once they are decoded. Reset removes watch.
func (s *Scanner) Watch(watch jsontree.Watch) { s.watch = watch }

// spend counts memory. Most reviews end before they need a report.
func (s *Scanner) spend(weight int) error {
	if s.spent += weight; s.spent < watched {
		return nil
	}
	return s.report()
}

func (s *Scanner) report() error {
	spent := s.spent
	if s.spent = 0; s.watch == nil {
		return nil
	}
	return s.watch(spent)
}

// Replaced reports whether a string had invalid bytes or escapes. U+FFFD replaces them.
func (s *Scanner) Replaced() bool { return s.replaced }

// Object reads an object and calls field for each key; field reads the value. A duplicate key is an
// error: another reader of the review may use the other value.
func (s *Scanner) Object(field func(s *Scanner, key []byte) error) error {
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
		if keys.many != nil {
			if err := s.spend(keyWeight + len(key)); err != nil {
				return err
			}
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

// Array reads an array and calls item at the start of each value, which reads it.
func (s *Scanner) Array(item func(s *Scanner) error) error {
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

// String reads a string, or null, which leaves the target alone.
func (s *Scanner) String(target *string) error {
	if s.Null() {
		return nil
	}
	if err := s.want('"', "a string"); err != nil {
		return err
	}
	text, err := s.text()
	if err == nil {
		*target = s.toString(text)
	}
	return err
}

// Strings reads an array of strings and adds them to target; null among them is empty.
func (s *Scanner) Strings(target *[]string) error {
	if s.Null() {
		return nil
	}
	return s.Array(func(s *Scanner) error {
		var text string
		if err := s.String(&text); err != nil {
			return err
		}
		*target = append(*target, text)
		return s.spend(itemWeight)
	})
}

// StringLists reads an object whose values are arrays of strings.
func (s *Scanner) StringLists(target *map[string][]string) error {
	if s.Null() {
		return nil
	}
	lists := map[string][]string{}
	*target = lists
	// Most lists have one item: they share a buffer.
	buffer := make([]string, 0, 8)
	return s.Object(func(s *Scanner, key []byte) error {
		name, start, absent := s.toString(key), len(buffer), s.Null()
		if err := s.spend(nameWeight); err != nil {
			return err
		}
		if absent {
			lists[name] = nil
			return nil
		}
		err := s.Strings(&buffer)
		lists[name] = buffer[start:len(buffer):len(buffer)]
		return err
	})
}

// Bool reads a boolean, or null, which leaves the target alone.
func (s *Scanner) Bool(target *bool) error {
	if s.Null() {
		return nil
	}
	if c := s.peek(); c != 't' && c != 'f' {
		return s.wrong("a boolean")
	}
	raw, err := s.Value()
	*target = len(raw) == len("true")
	return err
}

// RawObject reads an object without looking inside, and returns its text; nil for null.
func (s *Scanner) RawObject() (text []byte, skipIndex jsontree.SkipIndex, err error) {
	if s.Null() {
		return nil, skipIndex, nil
	}
	if err := s.want('{', "an object"); err != nil {
		return nil, skipIndex, err
	}
	start := s.at
	s.at, skipIndex, err = jsontree.Prescan(s.data, start, MaxDepth-len(s.open), s.watch)
	return s.data[start:s.at], skipIndex, tooDeep(err)
}

// Skip steps over one value of any kind, in which no object may have a key twice.
func (s *Scanner) Skip() error {
	c := s.peek()
	if c == '{' || c == '[' {
		if err := s.spend(skipWeight); err != nil {
			return err
		}
	}
	switch c {
	case '{':
		return s.Object(func(s *Scanner, _ []byte) error { return s.Skip() })
	case '[':
		return s.Array((*Scanner).Skip)
	}
	_, err := s.Value()
	return err
}

// Value steps over one value of any kind and returns its text.
func (s *Scanner) Value() ([]byte, error) {
	s.peek()
	start := s.at
	end, _, err := jsontree.Check(s.data, start, MaxDepth-len(s.open))
	s.at = end
	return s.data[start:end], tooDeep(err)
}

func tooDeep(err error) error {
	if errors.Is(err, jsontree.ErrTooDeep) {
		return ErrTooDeep
	}
	return err
}

// key reads a key and the colon after it.
func (s *Scanner) key() ([]byte, error) {
	if s.peek() != '"' {
		return nil, s.syntax("expected a key")
	}
	key, err := s.text()
	if err != nil {
		return nil, err
	}
	return key, s.colon()
}

// End reports data after the value, and reports the remaining memory to the watch.
func (s *Scanner) End() error {
	if s.peek(); s.at < len(s.data) {
		return s.syntax("unexpected data after the value")
	}
	return s.report()
}

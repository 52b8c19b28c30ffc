package jsontree

import (
	"errors"
	"math"
	"strings"
)

// ErrTooDeep is the error for values that are nested too deep.
var ErrTooDeep = errors.New("values are nested too deep")

// Check returns where the value ends that begins at data[at], after white space maybe. It
// checks the grammar, but not whether text is UTF-8: decoding repairs that. The value is
// sound if all numbers in it can be represented, and so [Decode] cannot fail. Containers
// may be nested up to depth levels; beyond that the error is [ErrTooDeep].
func Check(data []byte, at, depth int) (end int, sound bool, err error) {
	s := skipper{data: data, depth: depth, next: math.MaxInt}
	end, err = s.value(at)
	return end, !s.excessive, err
}

// A Watch follows a pass over JSON text. It is called from time to time, and at the end, with an
// upper bound of the memory, in bytes, of the values since the last call once they are decoded. An
// error ends the pass.
type Watch func(weight int) error

// The memory of decoded values, in bytes, measured with Go's maps and slices: a value and its place
// in its container, while that grows; a map; a slice.
const (
	valueWeight  = 96
	objectWeight = 320
	arrayWeight  = 48
	// deepWeight is the stack of one more level, if there are more than shallow.
	deepWeight = 1024
	shallow    = 32
)

// watched is the weight of the values between two calls of a [Watch].
const watched = 64 << 10

// Prescan is Check for a value that is decoded later, and begins at data[at]. Watch may be nil.
func Prescan(data []byte, at, depth int, watch Watch) (end int, skipIndex SkipIndex, err error) {
	s := skipper{data: data, depth: depth, watch: watch, next: math.MaxInt}
	if watch != nil {
		s.next = watched
	}
	if size := len(data) - at; size < math.MaxInt32 {
		s.indexes, s.base, s.parts = true, at, make([]part, 0, min(8+size/large/2, 1024))
	}
	if end, err = s.value(at); err == nil && watch != nil {
		err = s.report()
	}
	return end, SkipIndex{sound: err == nil && !s.excessive, parts: s.parts, weight: s.told}, err
}

// A SkipIndex is what Prescan found out about a value, so that decoding need not check it again and
// can skip large containers. The zero SkipIndex knows nothing.
type SkipIndex struct {
	// sound means that the value can be decoded.
	sound bool
	// parts are its large containers, in the order in which they begin.
	parts []part
	// weight is what its values take once they are decoded, if the survey was watched.
	weight int
	// interrupt returns why decoding should stop; nil if nothing stops it.
	interrupt func() error
}

// NewObject makes a *usher.Object of a JSON object that Prescan has read, and that is not validated again.
// Package usher sets it.
var NewObject func(data []byte, skipIndex SkipIndex) any

// Undecoded makes a *usher.Object of the bytes of another, which may not be nil, without what was decoded of it, and
// without its interrupt. It keeps what is decoded of it, for several evaluations. Package usher sets it.
var Undecoded func(object any, data []byte) any

// Weight is how many bytes of memory the value takes at most once it is decoded, 0 if the
// survey had no [Watch].
func (o *SkipIndex) Weight() int { return o.weight }

// Interrupt makes decoding call stop every few thousand values, and end with its error.
func (o *SkipIndex) Interrupt(stop func() error) { o.interrupt = stop }

// A part is a container of at least large bytes: its position, relative to the value.
type part struct{ start, end int32 }

// large is the size in bytes from which an index entry makes skipping a container faster.
const large = 128

// A skipper steps over values. It does not recurse.
type skipper struct {
	data  []byte
	depth int
	// excessive means that a number was out of range.
	excessive bool
	// indexes means that large containers are recorded as parts, with positions relative to base.
	indexes bool
	base    int
	parts   []part
	// weight is the memory of the values since the last call of watch, told that of those before,
	// and next the weight at which watch is called again.
	watch        Watch
	weight, told int
	next         int
}

// report reports the memory of the values since the last report.
func (s *skipper) report() error {
	weight := s.weight
	s.weight = 0
	s.told += weight
	return s.watch(weight)
}

// An opened is a container that is not at its end.
type opened struct {
	// start is its position, and part its index among the parts.
	start, part int
}

// value steps over the value that begins at data[i].
func (s *skipper) value(i int) (int, error) { //nolint:gocognit // one switch, which is harder to read in pieces
	var buffer [shallow]opened
	open := buffer[:0]
	data := s.data
	var err error
	for {
		if i = Blank(data, i); i >= len(data) {
			return i, Syntax(data, i, "")
		}
		if s.weight += valueWeight; s.weight >= s.next {
			if err := s.report(); err != nil {
				return i, err
			}
		}
		switch c := data[i]; c {
		case '"':
			if i, err = s.text(i); err != nil {
				return i, err
			}
		case '{', '[':
			if len(open) == s.depth {
				return i, ErrTooDeep
			}
			start := i
			i = Blank(data, i+1)
			// The closing bracket of both kinds is two after the opening one.
			if i < len(data) && data[i] == c+2 {
				s.weight += arrayWeight
				i++
				break
			}
			open = append(open, s.open(start, len(open)))
			if c == '{' {
				if i, err = s.key(i); err != nil {
					return i, err
				}
			}
			continue
		default:
			if i, err = s.scalar(i); err != nil {
				return i, err
			}
		}
		for {
			if len(open) == 0 {
				return i, nil
			}
			if i = Blank(data, i); i >= len(data) {
				return i, Syntax(data, i, "")
			}
			if data[i] == ',' {
				i++
				break
			}
			last := open[len(open)-1]
			if data[i] != data[last.start]+2 {
				return i, Syntax(data, i, "expected a comma or the end after a value")
			}
			i++
			open = open[:len(open)-1]
			if s.indexes {
				s.close(last, i)
			}
		}
		if data[open[len(open)-1].start] == '{' {
			if i, err = s.key(Blank(data, i)); err != nil {
				return i, err
			}
		}
	}
}

// open notes a container that begins at data[start], inside of depth others.
func (s *skipper) open(start, depth int) opened {
	s.weight += arrayWeight
	if s.data[start] == '{' {
		s.weight += objectWeight - arrayWeight
	}
	if depth >= shallow {
		s.weight += deepWeight
	}
	o := opened{start, len(s.parts)}
	if s.indexes {
		s.parts = append(s.parts, part{start: int32(start - s.base)})
	}
	return o
}

// close notes where a container ends. There is no part in one that is small.
func (s *skipper) close(c opened, end int) {
	if end-c.start < large {
		s.parts = s.parts[:c.part]
		return
	}
	s.parts[c.part].end = int32(end - s.base)
}

// key steps over a key and the colon after it.
func (s *skipper) key(i int) (int, error) {
	data := s.data
	if i >= len(data) || data[i] != '"' {
		return i, Syntax(data, i, "expected a key")
	}
	i, err := s.text(i)
	if err != nil {
		return i, err
	}
	if i = Blank(data, i); i >= len(data) || data[i] != ':' {
		return i, Syntax(data, i, "expected a colon after a key")
	}
	return i + 1, nil
}

// text skips a string. One with escapes is copied when it is decoded.
func (s *skipper) text(i int) (int, error) {
	end, plain, err := Quoted(s.data, i)
	if !plain {
		s.weight += end - i
	}
	return end, err
}

// Blank steps over the white space that begins at data[i], if any does.
func Blank(data []byte, i int) int {
	for i < len(data) && data[i] <= ' ' && space(data[i]) {
		i++
	}
	return i
}

// scalar skips a number or a word.
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
		// Without an exponent a number out of range has more than 300 digits.
		if err == nil && (!whole || end-i > 300) {
			_, outOfRange := float(string(s.data[i:end]))
			s.excessive = s.excessive || outOfRange != nil
		}
		return end, err
	}
	if len(s.data)-i < len(word) || string(s.data[i:i+len(word)]) != word {
		return i, Syntax(s.data, i, "expected a value")
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

package audit

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/bits"
)

const (
	// leastPacked is from how many bytes on texts are packed, and leastSaved which part of a text that has
	// to save, as a divisor.
	leastPacked = 128
	leastSaved  = 4
	// mostLike is how much of another text they are compared with, in bytes.
	mostLike = 4 << 10
	// word is how many bytes have to be the same.
	word = 8
	// mostUnlike is how many texts in a row may have little in common with a pattern before another one
	// takes its place, and mostPatterns how often that happens.
	mostUnlike   = 16
	mostPatterns = 8
)

// A pattern is a text that others have much in common with: objects of a kind are alike. Of these it
// keeps what is different. It is immutable.
type pattern struct {
	text []byte
	// at has positions in the text, from 1 on, by hashes of the words there.
	at    []uint16
	shift int
}

func newPattern(text []byte) *pattern {
	p := &pattern{text: bytes.Clone(text[:min(len(text), mostLike)])}
	size := bits.Len(uint(2 * len(p.text)))
	p.at, p.shift = make([]uint16, 1<<size), 64-size
	// The first of several is most often the right one.
	for i := len(p.text) - word; i >= 0; i-- {
		p.at[p.hash(binary.LittleEndian.Uint64(p.text[i:]))] = uint16(i + 1)
	}
	return p
}

func (p *pattern) hash(word uint64) uint64 { return word * 0x9e3779b97f4a7c15 >> p.shift }

// pack appends a packed text: bytes of its own and parts of the pattern in turn, each with its length.
func (p *pattern) pack(to, text []byte) []byte {
	own := 0
	for i := 0; i+word <= len(text); {
		next := binary.LittleEndian.Uint64(text[i:])
		at := int(p.at[p.hash(next)]) - 1
		if at < 0 || binary.LittleEndian.Uint64(p.text[at:]) != next {
			i++
			continue
		}
		n := word
		for i+n < len(text) && at+n < len(p.text) && text[i+n] == p.text[at+n] {
			n++
		}
		to = appendOwn(to, text[own:i])
		to = binary.AppendUvarint(binary.AppendUvarint(to, uint64(at)), uint64(n))
		i += n
		own = i
	}
	return appendOwn(to, text[own:])
}

func appendOwn(to, own []byte) []byte {
	return append(binary.AppendUvarint(to, uint64(len(own))), own...)
}

var errPacked = errors.New("the text of an object is packed wrongly")

// unpack returns what was packed.
func (p *pattern) unpack(packed []byte) ([]byte, error) {
	text := make([]byte, 0, 2*len(p.text))
	number := func(most int) (int, bool) {
		n, size := binary.Uvarint(packed)
		if size <= 0 || n > uint64(most) {
			return 0, false
		}
		packed = packed[size:]
		return int(n), true
	}
	for {
		own, ok := number(len(packed))
		if !ok || own > len(packed) {
			return nil, errPacked
		}
		text, packed = append(text, packed[:own]...), packed[own:]
		if len(packed) == 0 {
			return text, nil
		}
		at, first := number(len(p.text))
		if !first {
			return nil, errPacked
		}
		n, second := number(len(p.text) - at)
		if !second {
			return nil, errPacked
		}
		text = append(text, p.text[at:at+n]...)
	}
}

// pack returns a copy of a text of an extent, packed if that is much smaller. The caller holds the lock.
func (a *Auditor) pack(e *extent, text []byte) (kept []byte, with *pattern) {
	if len(text) < leastPacked {
		return bytes.Clone(text), nil
	}
	if e.like == nil || e.unlike >= mostUnlike && e.patterns < mostPatterns {
		e.like, e.unlike = newPattern(text), 0
		e.patterns++
	}
	a.scratch = e.like.pack(a.scratch[:0], text)
	if len(a.scratch) > len(text)-len(text)/leastSaved {
		e.unlike++
		return bytes.Clone(text), nil
	}
	e.unlike = 0
	return bytes.Clone(a.scratch), e.like
}

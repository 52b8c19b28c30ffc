package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/bits"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/audit/judge"
)

const (
	// minCompressed is from how many bytes on texts are compressed, and minSaved which part of a text that
	// has to save, as a divisor.
	minCompressed = 128
	minSaved      = 4
	// maxDictionary is how much of a text is a dictionary, in bytes.
	maxDictionary = 4 << 10
	// word is how many bytes have to be the same.
	word = 8
	// maxMisses is how many texts in a row may have little in common with a dictionary before another one
	// takes its place, and maxDictionaries how often that happens.
	maxMisses       = 16
	maxDictionaries = 8
)

// A dictionary is a text that others have much in common with: objects of a kind are alike. Of these only
// the differences are kept. It is immutable.
type dictionary struct {
	text []byte
	// at has positions in the text, from 1 on, by hashes of the words there.
	at    []uint16
	shift int
}

func newDictionary(text []byte) *dictionary {
	d := &dictionary{text: bytes.Clone(text[:min(len(text), maxDictionary)])}
	size := bits.Len(uint(2 * len(d.text)))
	d.at, d.shift = make([]uint16, 1<<size), 64-size
	// The first of several is most often the right one.
	for i := len(d.text) - word; i >= 0; i-- {
		d.at[d.hash(binary.LittleEndian.Uint64(d.text[i:]))] = uint16(i + 1)
	}
	return d
}

func (d *dictionary) hash(word uint64) uint64 { return word * 0x9e3779b97f4a7c15 >> d.shift }

// compress appends a compressed text: bytes of its own and parts of the dictionary in turn, each with its
// length.
func (d *dictionary) compress(to, text []byte) []byte {
	own := 0
	for i := 0; i+word <= len(text); {
		next := binary.LittleEndian.Uint64(text[i:])
		at := int(d.at[d.hash(next)]) - 1
		if at < 0 || binary.LittleEndian.Uint64(d.text[at:]) != next {
			i++
			continue
		}
		n := word
		for i+n < len(text) && at+n < len(d.text) && text[i+n] == d.text[at+n] {
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

var errCompressed = errors.New("the compressed text of an object is corrupt")

// decompress returns what was compressed.
func (d *dictionary) decompress(data []byte) ([]byte, error) {
	text := make([]byte, 0, 2*len(d.text))
	number := func(most int) (int, bool) {
		n, size := binary.Uvarint(data)
		if size <= 0 || n > uint64(most) {
			return 0, false
		}
		data = data[size:]
		return int(n), true
	}
	for {
		own, ok := number(len(data))
		if !ok || own > len(data) {
			return nil, errCompressed
		}
		text, data = append(text, data[:own]...), data[own:]
		if len(data) == 0 {
			return text, nil
		}
		at, first := number(len(d.text))
		if !first {
			return nil, errCompressed
		}
		n, second := number(len(d.text) - at)
		if !second {
			return nil, errCompressed
		}
		text = append(text, d.text[at:at+n]...)
	}
}

// A Selection is the paths at which projections were made, and the dictionary of their texts.
type Selection struct {
	kind *Kind
	id   uint32
	// Paths are not changed.
	Paths *usher.Paths
	// sufficient says that the projections have all that a plan reads.
	sufficient bool
	plan       *judge.Plan
	// dictionary is nil if no text was compressed. misses counts the last texts that have little in
	// common with it, and dictionaries how many there were.
	dictionary           *dictionary
	misses, dictionaries int
}

// suffices reports whether the projections have all that the plan of the kind reads.
func (e *Selection) suffices() bool {
	if plan := e.kind.plan; plan != e.plan {
		e.plan, e.sufficient = plan, plan.Paths().Within(e.Paths)
	}
	return e.sufficient
}

// compress returns a copy of a text, compressed if that is much smaller: then by a dictionary. The buffer
// is used again.
func (e *Selection) compress(buffer *[]byte, text []byte) (kept []byte, by *dictionary) {
	if len(text) < minCompressed {
		return bytes.Clone(text), nil
	}
	if e.dictionary == nil || e.misses >= maxMisses && e.dictionaries < maxDictionaries {
		e.dictionary, e.misses = newDictionary(text), 0
		e.dictionaries++
	}
	*buffer = e.dictionary.compress((*buffer)[:0], text)
	if len(*buffer) > len(text)-len(text)/minSaved {
		e.misses++
		return bytes.Clone(text), nil
	}
	e.misses = 0
	return bytes.Clone(*buffer), e.dictionary
}

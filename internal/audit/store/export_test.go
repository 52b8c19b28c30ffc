package store

import "time"

// Compress compresses a text that is like another one, and Decompress does the opposite.
func Compress(like, text []byte) []byte { return newDictionary(like).compress(nil, text) }

// Decompress returns what was compressed.
func Decompress(like, data []byte) ([]byte, error) { return newDictionary(like).decompress(data) }

// LevelOf returns how much each of some may keep so that all together have excess less.
func LevelOf(all []int64, excess int64) int64 {
	used := map[*namespace]int64{}
	for _, bytes := range all {
		used[&namespace{}] = bytes
	}
	return levelOf(used, excess)
}

// A Note is a text that is interned.
type Note struct {
	interned

	Text string
}

func (n *Note) size() int64 { return int64(len(n.Text)) }

// Notes intern texts for namespaces.
type Notes struct {
	memory   memory
	interner interner[*Note]
	// Disposed are the texts that nobody refers to any more.
	Disposed []string
}

// NewNotes returns no texts.
func NewNotes() *Notes {
	n := &Notes{memory: memory{namespaces: map[string]*namespace{}}}
	n.interner = newInterner(&n.memory, func(note *Note) { n.Disposed = append(n.Disposed, note.Text) })
	return n
}

// Intern returns the text, with a reference.
func (n *Notes) Intern(namespace, text string) *Note {
	h := hasher{}
	h.text(text)
	if known, ok := n.interner.lookup(h.key()); ok {
		return known
	}
	return n.interner.add(h.key(), n.memory.namespace(namespace), &Note{Text: text})
}

// Release returns a reference.
func (n *Notes) Release(note *Note) { n.interner.release(note) }

// Used is what each namespace uses.
func (n *Notes) Used() map[string]int64 {
	used := map[string]int64{}
	for name, of := range n.memory.namespaces {
		used[name] = of.used
	}
	return used
}

// A Reading is how far a kind has been read.
type Reading struct{ reading }

// Begin begins a full read, and End ends it.
func (r *Reading) Begin(now time.Time) { r.begin(true, now) }

// End ends a full read.
func (r *Reading) End(now time.Time) { r.end(true, now) }

// Request requests a full read, and Due is when that is due.
func (r *Reading) Request() bool { return r.request() }

// Due reports whether a full read is due, and otherwise how long that takes.
func (r *Reading) Due(now time.Time) (bool, time.Duration) { return r.due(now) }

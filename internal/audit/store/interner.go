package store

import (
	"crypto/sha256"
	"encoding/binary"
)

// A digest identifies what it is computed of: 128 bits of SHA-256.
type digest [16]byte

// An interned value is kept once, however often it is used. Embed it.
type interned struct {
	key digest
	// owner is the namespace that its memory is counted for: the one that had it first.
	owner *namespace
	refs  int32
}

func (v *interned) shared() *interned { return v }

// A value can be interned. Its size does not change.
type value interface {
	comparable
	shared() *interned
	size() int64
}

// An interner keeps equal values once.
type interner[V value] struct {
	memory *memory
	known  map[digest]V
	// dispose releases what a value refers to.
	dispose func(V)
}

func newInterner[V value](m *memory, dispose func(V)) interner[V] {
	return interner[V]{m, map[digest]V{}, dispose}
}

// lookup returns the value with a key, with a reference for the caller, and false if there is none.
func (i *interner[V]) lookup(key digest) (V, bool) {
	v, known := i.known[key]
	if known {
		v.shared().refs++
	}
	return v, known
}

// add adds a value that is not known, with a reference for the caller.
func (i *interner[V]) add(key digest, owner *namespace, v V) V {
	*v.shared() = interned{key, owner, 1}
	i.known[key] = v
	i.memory.hold(owner, v.size())
	return v
}

// release returns a reference. The zero value has none.
func (i *interner[V]) release(v V) {
	var zero V
	if v == zero {
		return
	}
	in := v.shared()
	if in.refs--; in.refs > 0 {
		return
	}
	delete(i.known, in.key)
	i.dispose(v)
	i.memory.free(in.owner, v.size())
}

// A hasher makes keys of texts and numbers. It keeps its buffer.
type hasher struct{ data []byte }

func (h *hasher) reset() *hasher {
	h.data = h.data[:0]
	return h
}

func (h *hasher) text(s string) {
	h.number(uint64(len(s)))
	h.data = append(h.data, s...)
}

func (h *hasher) number(n uint64) { h.data = binary.AppendUvarint(h.data, n) }

func (h *hasher) interned(v *interned) { h.data = append(h.data, v.key[:]...) }

func (h *hasher) key() digest {
	sum := sha256.Sum256(h.data)
	return digest(sum[:len(digest{})])
}

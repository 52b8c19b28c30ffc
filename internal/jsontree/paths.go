package jsontree

import (
	"cmp"
	"iter"
	"slices"
	"strings"
)

// Paths select values of a tree. They lead from object to object, and with [Element] from an array to
// its elements; everything at and below the end of a path is selected, and everything below a value
// that is neither, or that another path leads through in another way. The zero Paths, and nil, select
// nothing. Paths that no longer change can be shared.
type Paths struct {
	whole bool
	// fields are in the order of their keys.
	fields []field
	// elements are where the paths go on in every element of an array.
	elements *Paths
}

// Keys of paths, which objects do not have.
const (
	// Element leads to all elements of an array.
	Element = "\x00*"
	// Presence leads nowhere: an object at which it is the last key is selected without its fields.
	Presence = "\x00"
)

// A field is where the paths go on under a key.
type field struct {
	key   string
	paths *Paths
}

// all lead everywhere.
var all = &Paths{whole: true}

// All returns the paths to everything.
func All() *Paths { return all }

// Add adds a path.
func (p *Paths) Add(path ...string) {
	for _, key := range path {
		if p.whole {
			return
		}
		p = p.at(key)
	}
	p.becomeWhole()
}

func (p *Paths) becomeWhole() { *p = Paths{whole: true} }

// at returns the paths that go on under a key, made if necessary.
func (p *Paths) at(key string) *Paths {
	if key == Element {
		if p.elements == nil {
			p.elements = &Paths{}
		}
		return p.elements
	}
	i, found := p.search(key)
	if !found {
		p.fields = slices.Insert(p.fields, i, field{key, &Paths{}})
	}
	return p.fields[i].paths
}

// search returns the index of a key among the fields, where it is or would be.
func (p *Paths) search(key string) (at int, found bool) {
	return slices.BinarySearchFunc(p.fields, key, func(f field, key string) int { return cmp.Compare(f.key, key) })
}

// few is up to how many fields it is faster to look at one after the other.
const few = 16

// next returns the paths that go on under a key, nil if there are none.
func (p *Paths) next(key string) *Paths {
	if len(p.fields) > few {
		i, found := p.search(key)
		if !found {
			return nil
		}
		return p.fields[i].paths
	}
	for i := range p.fields {
		if p.fields[i].key == key {
			return p.fields[i].paths
		}
	}
	return nil
}

// AddPointer adds the path that a JSON pointer (RFC 6901) is, or everything if it is none.
func (p *Paths) AddPointer(pointer string) {
	var path []string
	for key := range keys(pointer) {
		path = append(path, key)
	}
	p.Add(path...)
}

// keys yields the keys of a JSON pointer. Text before the first slash is ignored.
func keys(pointer string) iter.Seq[string] {
	return func(yield func(string) bool) {
		_, rest, more := strings.Cut(pointer, "/")
		escaped := strings.Contains(rest, "~")
		for more {
			var key string
			key, rest, more = strings.Cut(rest, "/")
			if escaped {
				key = strings.ReplaceAll(strings.ReplaceAll(key, "~1", "/"), "~0", "~")
			}
			if !yield(key) {
				return
			}
		}
	}
}

// Merge adds the paths of other, which stays as it is.
func (p *Paths) Merge(other *Paths) {
	switch {
	case other == nil || p.whole:
	case other.whole:
		p.becomeWhole()
	default:
		for _, f := range other.fields {
			p.at(f.key).Merge(f.paths)
		}
		if other.elements != nil {
			p.at(Element).Merge(other.elements)
		}
	}
}

// MergeAt adds the paths of other below a path. What is nil or empty adds nothing.
func (p *Paths) MergeAt(other *Paths, path ...string) {
	if !other.Meets() {
		return
	}
	for _, key := range path {
		if p.whole {
			return
		}
		p = p.at(key)
	}
	p.Merge(other)
}

// Below returns what p selects below a path, relative to it; nil if nothing. It is shared.
func (p *Paths) Below(path ...string) *Paths {
	for _, key := range path {
		p = p.field(key)
	}
	return p
}

// Clone returns a copy of p, empty for nil.
func (p *Paths) Clone() *Paths {
	clone := &Paths{}
	clone.Merge(p)
	return clone
}

// Within reports whether other leads everywhere that p does.
func (p *Paths) Within(other *Paths) bool {
	switch {
	case p == nil || other != nil && other.whole:
		return true
	case other == nil || p.whole:
		return false
	}
	for i := range p.fields {
		if f := &p.fields[i]; !f.paths.Within(other.next(f.key)) {
			return false
		}
	}
	return p.elements == nil || other.elements != nil && p.elements.Within(other.elements)
}

// Whole reports whether p leads everywhere.
func (p *Paths) Whole() bool { return p != nil && p.whole }

// Covers reports whether p selects everything at path, and so whether there is anything.
func (p *Paths) Covers(path ...string) bool {
	for _, key := range path {
		if p == nil || p.whole {
			break
		}
		p = p.next(key)
	}
	return p.Whole()
}

// Meets reports whether p selects anything at, below or above path.
func (p *Paths) Meets(path ...string) bool {
	for _, key := range path {
		if p == nil || p.whole || p.elements != nil {
			break
		}
		p = p.next(key)
	}
	return p != nil && (p.whole || p.elements != nil || len(p.fields) > 0)
}

// CoversPointer is Covers for a JSON pointer, or for everything if it is none.
func (p *Paths) CoversPointer(pointer string) bool {
	for key := range keys(pointer) {
		if p == nil || p.whole {
			break
		}
		p = p.next(key)
	}
	return p.Whole()
}

// field returns what p selects below a key of an object, nil if nothing.
func (p *Paths) field(key string) *Paths {
	switch {
	case p == nil || p.whole:
		return p
	case p.elements != nil:
		return all
	}
	return p.next(key)
}

// element returns what p selects of the elements of an array.
func (p *Paths) element() *Paths {
	if p.whole || p.elements == nil || len(p.fields) > 1 || len(p.fields) == 1 && p.fields[0].key != Presence {
		return all
	}
	return p.elements
}

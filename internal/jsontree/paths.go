package jsontree

import (
	"iter"
	"strings"
)

// Paths say what of a tree is wanted. They lead from object to object; at the end of a path
// everything is wanted, and so it is from where a path leads through something else. The
// zero Paths, and nil, lead nowhere. Paths that are not changed any more can be shared.
type Paths struct {
	whole  bool
	fields map[string]*Paths
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
		if p.fields == nil {
			p.fields = map[string]*Paths{}
		}
		next := p.fields[key]
		if next == nil {
			next = &Paths{}
			p.fields[key] = next
		}
		p = next
	}
	p.whole, p.fields = true, nil
}

// AddPointer adds the path that a JSON pointer (RFC 6901) is, or everything if it is none.
func (p *Paths) AddPointer(pointer string) {
	var path []string
	for key := range keys(pointer) {
		path = append(path, key)
	}
	p.Add(path...)
}

// keys yields what a JSON pointer leads through. What stands before the first slash does
// not count.
func keys(pointer string) iter.Seq[string] {
	return func(yield func(string) bool) {
		_, rest, more := strings.Cut(pointer, "/")
		for more {
			var key string
			key, rest, more = strings.Cut(rest, "/")
			if strings.Contains(key, "~") {
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
		p.whole, p.fields = true, nil
	default:
		if p.fields == nil {
			p.fields = make(map[string]*Paths, len(other.fields))
		}
		for key, inside := range other.fields {
			if p.fields[key] == nil {
				p.fields[key] = &Paths{}
			}
			p.fields[key].Merge(inside)
		}
	}
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
	for key, inside := range p.fields {
		if !inside.Within(other.fields[key]) {
			return false
		}
	}
	return true
}

// Whole reports whether p leads everywhere.
func (p *Paths) Whole() bool { return p != nil && p.whole }

// Covers reports whether p leads to everything that lies at path, and so to whether there
// is anything.
func (p *Paths) Covers(path ...string) bool {
	for _, key := range path {
		if p == nil || p.whole {
			break
		}
		p = p.fields[key]
	}
	return p.Whole()
}

// CoversPointer is Covers for a JSON pointer, or for everything if it is none.
func (p *Paths) CoversPointer(pointer string) bool {
	for key := range keys(pointer) {
		if p == nil || p.whole {
			break
		}
		p = p.fields[key]
	}
	return p.Whole()
}

// field returns what p wants of what lies under a key, nil if that is nothing.
func (p *Paths) field(key string) *Paths {
	if p == nil || p.whole {
		return p
	}
	return p.fields[key]
}

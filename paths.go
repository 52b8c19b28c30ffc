package usher

import "github.com/usher-dev/usher/internal/jsontree"

// Paths are the paths of an object that are read, with everything below each of them. They lead
// from object to object; if a path leads through a list or a scalar, all of that value is read. The
// zero Paths, and nil, read nothing. Paths that no longer change can be shared; only Add,
// AddPointer and Merge change them.
type Paths struct{ tree jsontree.Paths }

// everywhere are the paths of [AllPaths]. They never change.
var everywhere = func() *Paths {
	paths := &Paths{}
	paths.Add()
	return paths
}()

// AllPaths returns paths that read everything. They are shared: do not add to them.
func AllPaths() *Paths { return everywhere }

// Add adds a path, such as "metadata", "labels". Without keys it adds everything.
func (p *Paths) Add(path ...string) { p.tree.Add(path...) }

// AddPointer adds the path of a JSON pointer (RFC 6901), or everything if pointer is invalid.
func (p *Paths) AddPointer(pointer string) { p.tree.AddPointer(pointer) }

// Merge adds the paths of other, which may be nil.
func (p *Paths) Merge(other *Paths) { p.tree.Merge(other.of()) }

// MergeAt adds, below a path, what other reads below another, both from the top if empty:
//
//	workload.MergeAt([]string{"spec", "template", "spec"}, pod, "spec")
func (p *Paths) MergeAt(path []string, other *Paths, below ...string) {
	p.tree.MergeAt(other.of().Below(below...), path...)
}

// Clone returns a copy of p, empty for nil.
func (p *Paths) Clone() *Paths {
	clone := &Paths{}
	clone.Merge(p)
	return clone
}

// Within reports whether other reads everything that p reads.
func (p *Paths) Within(other *Paths) bool { return p.of().Within(other.of()) }

// Whole reports whether p reads everything.
func (p *Paths) Whole() bool { return p.of().Whole() }

// Covers reports whether p reads everything at path, and so whether there is anything.
func (p *Paths) Covers(path ...string) bool { return p.of().Covers(path...) }

// Meets reports whether p reads anything at, below or above path.
func (p *Paths) Meets(path ...string) bool { return p.of().Meets(path...) }

// CoversPointer is [Paths.Covers] for a JSON pointer; an invalid pointer is everything.
func (p *Paths) CoversPointer(pointer string) bool { return p.of().CoversPointer(pointer) }

func (p *Paths) of() *jsontree.Paths {
	if p == nil {
		return nil
	}
	return &p.tree
}

package usher

import "github.com/usher-dev/usher/internal/jsontree"

// Paths say what of an object is read: everything that lies at one of them. They lead from
// object to object; from where a path leads through something else, a list or a text, all of
// that is read. The zero Paths, and nil, lead nowhere. Paths that do not change any more can
// be shared; methods other than Add, AddPointer and Merge do not change them.
type Paths struct{ tree jsontree.Paths }

// everywhere are the paths of [AllPaths], which never change.
var everywhere = func() *Paths {
	paths := &Paths{}
	paths.Add()
	return paths
}()

// AllPaths returns the paths to everything. They are shared: do not add to them.
func AllPaths() *Paths { return everywhere }

// Add adds a path, such as "metadata", "labels". Without keys it adds everything.
func (p *Paths) Add(path ...string) { p.tree.Add(path...) }

// AddPointer adds the path that a JSON pointer (RFC 6901) is, or everything if it is none.
func (p *Paths) AddPointer(pointer string) { p.tree.AddPointer(pointer) }

// Merge adds the paths of other, which stays as it is and may be nil.
func (p *Paths) Merge(other *Paths) { p.tree.Merge(other.of()) }

// Clone returns a copy of p, empty for nil.
func (p *Paths) Clone() *Paths {
	clone := &Paths{}
	clone.Merge(p)
	return clone
}

// Within reports whether other leads everywhere that p does.
func (p *Paths) Within(other *Paths) bool { return p.of().Within(other.of()) }

// Whole reports whether p leads everywhere.
func (p *Paths) Whole() bool { return p.of().Whole() }

// Covers reports whether p leads to everything that lies at path, and so to whether there
// is anything.
func (p *Paths) Covers(path ...string) bool { return p.of().Covers(path...) }

// Meets reports whether p leads to anything that lies at path, or to what it lies in.
func (p *Paths) Meets(path ...string) bool { return p.of().Meets(path...) }

// CoversPointer is [Paths.Covers] for a JSON pointer, or for everything if it is none.
func (p *Paths) CoversPointer(pointer string) bool { return p.of().CoversPointer(pointer) }

func (p *Paths) of() *jsontree.Paths {
	if p == nil {
		return nil
	}
	return &p.tree
}

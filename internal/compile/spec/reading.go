package spec

import (
	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/lang/cel/admission"
	"github.com/usher-dev/usher/internal/rule"
)

// A Reading is what a program reads in the objects of requests, and the values that it may have in common
// with others. It is for programs to embed.
type Reading struct {
	object, old *usher.Paths
	shared      []rule.Shared
}

// NewReading returns the reading of expressions and of the matches that are not nil. The digests are those
// of params that are written in place.
func NewReading(p *admission.Program, params []rule.Digest, matches ...*Match) Reading {
	object, old := p.ReadPaths()
	r := Reading{object, old, p.SharedValues(params)}
	for _, m := range matches {
		if m == nil {
			continue
		}
		m.AddPaths(object, old)
		r.shared = append(r.shared, m.sharedValues()...)
	}
	// The object that is deleted is the old one to expressions.
	object.Merge(old)
	return r
}

// ReadPaths implements [rule.Selective].
func (r *Reading) ReadPaths() (object, old *usher.Paths) { return r.object, r.old }

// SharedValues implements [rule.Sharer].
func (r *Reading) SharedValues() []rule.Shared { return r.shared }

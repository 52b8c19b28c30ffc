package admission

import (
	"slices"

	"github.com/usher-dev/usher/internal/lang/cel"
)

// A Telling is an expression whose value is told: to users as a message, to readers of audit logs as an
// annotation, or in an object to those who may read it.
type Telling struct {
	// Field is its path in the policy.
	Field string
	// Mutates says that the value is told in an object.
	Mutates bool

	reads []cel.Reads
}

// ReadsBelow reports whether the value depends on one at, below or around a path of a variable, such as
// object. That a value exists is not counted.
func (t *Telling) ReadsBelow(variable string, path ...string) bool {
	return slices.ContainsFunc(t.reads, func(r cel.Reads) bool {
		return slices.ContainsFunc(r.Whole(variable), func(read []string) bool {
			n := min(len(read), len(path))
			return slices.Equal(read[:n], path[:n])
		})
	})
}

// Tellings returns the expressions whose values are told, in the order in which they are compiled.
func (p *Program) Tellings() []Telling { return p.tellings }

// tell notes that the value of the last expression is told. It depends on what the variables that it is
// made of depend on.
func (c *compilation) tell(field string, mutates bool) {
	last := &c.added[len(c.added)-1]
	last.value.AddValue(c.from)
	t := Telling{Field: field, Mutates: mutates, reads: []cel.Reads{last.names, last.value}}
	seen := map[string]bool{}
	for queue := []*share{last}; len(queue) > 0; queue = queue[1:] {
		for i := range c.defined {
			d := &c.defined[i]
			if seen[d.name] || !queue[0].whole && !slices.Contains(queue[0].uses, d.name) {
				continue
			}
			seen[d.name] = true
			t.reads = append(t.reads, d.names, d.value)
			queue = append(queue, d)
		}
	}
	c.tellings = append(c.tellings, t)
}

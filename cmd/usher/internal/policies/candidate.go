package policies

import (
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/internal/compile"
)

// candidates are the candidates among policies that are read.
type candidates struct {
	refs []usher.PolicyRef
	// inForce reports that nothing else was read, so that what they embed decides.
	inForce bool
	// replaced are the policies that are not in force as they were.
	replaced map[usher.PolicyRef]bool
}

// inForce returns the policies that decide: if all are candidates, what these embed. Beside other policies,
// a candidate decides nothing, as in a cluster.
func inForce(all []compile.Compiled) ([]compile.Compiled, candidates, error) {
	c := candidates{replaced: map[usher.PolicyRef]bool{}}
	var deciding, embedded []compile.Compiled
	by := map[usher.PolicyRef]usher.PolicyRef{}
	for i := range all {
		candidate := all[i].Candidate
		if candidate == nil {
			deciding = append(deciding, all[i])
			continue
		}
		c.refs = append(c.refs, all[i].Ref)
		embedded = append(embedded, candidate.Policies...)
		changes := map[usher.PolicyRef]bool{}
		if candidate.Replaces.Name != "" {
			changes[candidate.Replaces] = true
		}
		for j := range candidate.Policies {
			changes[candidate.Policies[j].Ref] = true
		}
		for ref := range changes {
			if other, ok := by[ref]; ok && len(deciding) == 0 {
				return nil, c, fmt.Errorf("%s and %s are both about %s: name one of them", other, all[i].Ref, ref)
			}
			by[ref] = all[i].Ref
		}
		maps.Copy(c.replaced, changes)
	}
	if len(deciding) > 0 || len(c.refs) == 0 {
		return deciding, c, nil
	}
	c.inForce = true
	return embedded, c, nil
}

// note prints to s.Err what was made of candidates.
func (c candidates) note(cmd *cobra.Command, s cli.Streams) {
	for _, ref := range c.refs {
		if c.inForce {
			cli.Notef(cmd, s, "note", "%s is evaluated as if what it embeds were in force", ref)
			continue
		}
		cli.Notef(cmd, s, "note", "%s decides nothing beside other policies: named without them, it is evaluated as if it were in force", ref)
	}
}

// OfCandidates reports whether nothing but candidates was read: the set has what they embed.
func (p Set) OfCandidates() bool { return p.candidates.inForce }

// Replacing returns the set with the policies of another one, also in place of those with the same name and of
// those that its candidates replace.
func (p Set) Replacing(with Set) Set {
	known := maps.Clone(with.candidates.replaced)
	if known == nil {
		known = map[usher.PolicyRef]bool{}
	}
	for i := range with.compiled {
		known[with.compiled[i].Ref] = true
	}
	all := slices.Clone(with.compiled)
	theirs := map[usher.PolicyRef]bool{}
	for i := range p.compiled {
		theirs[p.compiled[i].Ref] = p.compiled[i].Elsewhere
		if !known[p.compiled[i].Ref] {
			all = append(all, p.compiled[i])
		}
	}
	next := setOf(p.compiler, all, theirs)
	next.candidates = with.candidates
	return next
}

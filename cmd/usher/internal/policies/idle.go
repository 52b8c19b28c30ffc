package policies

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/printable"
)

// Idle are the policies of a set that decide nothing.
type Idle struct {
	// Suspended are those whose writers say so, and Unproven those of a cluster that Usher does not enforce because
	// their writers are not known to have had the right to write them.
	Suspended []Inactive `json:"suspended,omitempty"`
	Unproven  []Inactive `json:"unproven,omitempty"`
}

// An Inactive is a policy that decides nothing.
type Inactive struct {
	Policy usher.PolicyRef `json:"policy"`
	// Why says so, and who suspended it if it is known.
	Why string `json:"why"`
}

// Idle returns the policies of the set that decide nothing.
func (p Set) Idle() Idle {
	var idle Idle
	for i := range p.compiled {
		c := &p.compiled[i]
		if why := compile.Suspended(c.Policy.Object); why != "" {
			idle.Suspended = append(idle.Suspended, Inactive{c.Ref, why})
		} else if c.Policy.Proof.State == api.Unproven {
			idle.Unproven = append(idle.Unproven, Inactive{c.Ref, strings.TrimPrefix(c.Policy.Proof.Why, "not in force: ")})
		}
	}
	return idle
}

// Only returns those that keep says.
func (i Idle) Only(keep func(usher.PolicyRef) bool) Idle {
	others := func(one Inactive) bool { return !keep(one.Policy) }
	return Idle{slices.DeleteFunc(i.Suspended, others), slices.DeleteFunc(i.Unproven, others)}
}

// Print writes a line for each, for people.
func (i Idle) Print(b *strings.Builder, p cli.Palette) {
	for _, one := range i.Suspended {
		b.WriteString(cli.Paint(p.Yellow, "suspended:") + " " + one.Policy.String() + ": " + printable.Line(one.Why) + "\n")
	}
	for _, one := range i.Unproven {
		b.WriteString(cli.Paint(p.Yellow, "not in force:") + " " + one.unproven() + "\n")
	}
}

// unproven says that a policy is not proven, and what to do.
func (i Inactive) unproven() string {
	return i.Policy.String() + " is unproven (usher authz adopt): " + printable.Line(i.Why)
}

// NoteIdle prints to s.Err which policies decide nothing, for commands whose report does not say so.
func (p Set) NoteIdle(cmd *cobra.Command, s cli.Streams) {
	idle := p.Idle()
	for _, one := range idle.Suspended {
		cli.Notef(cmd, s, "warning", "%s: %s", one.Policy, printable.Line(one.Why))
	}
	for _, one := range idle.Unproven {
		cli.Notef(cmd, s, "warning", "not in force: %s", one.unproven())
	}
}

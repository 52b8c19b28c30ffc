package try

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/internal/explain"
	"github.com/usher-dev/usher/internal/explain/text"
	"github.com/usher-dev/usher/internal/printable"
)

func (r *explainReport) print(w io.Writer, p cli.Palette) error {
	var b strings.Builder
	r.asker.print(&b, p)
	for i := range r.Explained {
		if i > 0 {
			b.WriteByte('\n')
		}
		r.Explained[i].print(&b, r.most, p)
	}
	r.Idle.Print(&b, p)
	_, err := io.WriteString(w, b.String())
	return err
}

func (e *explained) print(b *strings.Builder, most int, p cli.Palette) {
	verdict := allowedBy(e.LeftOut, p)
	switch {
	case !e.Allowed && e.Unsent != "":
		verdict = unsentDenial(p)
	case !e.Allowed:
		verdict = cli.Paint(p.Red, "denied")
	}
	warned := ""
	if slices.ContainsFunc(e.Phases, func(phase explain.Explanation) bool { return len(phase.Warnings) > 0 }) {
		warned = ", " + cli.Paint(p.Yellow, "warned")
	}
	fmt.Fprintf(b, "%s: %s %s: %s%s\n", printable.Line(e.File), e.Operation, cli.Paint(p.Bold, printable.Line(e.Name)), verdict, warned)
	printUnsent(b, e.Unsent, p)
	counted := false
	for i := range e.Phases {
		counted = text.Phase(b, &e.Phases[i], most, p) || counted
	}
	if counted {
		fmt.Fprintf(b, "  %s --policy NAME says why a policy does not match\n", cli.Paint(p.Yellow, "hint:"))
	}
	printMissing(b, "  ", "", "--facts", e.MissingFacts, p)
	printUnread(b, e.LeftOut, p)
	printInvalid(b, e.Invalid, p)
	printPresets(b, e.Presets, p)
}

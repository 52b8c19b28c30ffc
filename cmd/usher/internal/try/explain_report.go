package try

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/internal/explain"
	"github.com/usher-dev/usher/internal/printable"
)

func (r *explainReport) print(w io.Writer, p cli.Palette) error {
	var b strings.Builder
	for i := range r.Explained {
		if i > 0 {
			b.WriteByte('\n')
		}
		r.Explained[i].print(&b, p)
	}
	printSuspended(&b, r.Suspended, p)
	_, err := io.WriteString(w, b.String())
	return err
}

func (e *explained) print(b *strings.Builder, p cli.Palette) {
	verdict := allowedBy(e.LeftOut, p)
	if !e.Allowed {
		verdict = cli.Paint(p.Red, "denied")
	}
	warned := ""
	if slices.ContainsFunc(e.Phases, func(phase explain.Explanation) bool { return len(phase.Warnings) > 0 }) {
		warned = ", " + cli.Paint(p.Yellow, "warned")
	}
	fmt.Fprintf(b, "%s: %s %s: %s%s\n", printable.Line(e.File), e.Operation, cli.Paint(p.Bold, printable.Line(e.Name)), verdict, warned)
	for i := range e.Phases {
		printPhase(b, &e.Phases[i], p)
	}
	printMissing(b, "  ", "", "--facts", e.MissingFacts, p)
	printUnread(b, e.LeftOut, p)
	printPresets(b, e.Presets, p)
}

func printPhase(b *strings.Builder, e *explain.Explanation, p cli.Palette) {
	fmt.Fprintf(b, "  %s%s: %s", e.Entry, conversion(e), e.Verdict)
	if e.Verdict == usher.Deny {
		fmt.Fprintf(b, ": %s", cli.Paint(p.Red, below("  ", cmp.Or(e.Message, e.Reason, "without a word"))))
	}
	b.WriteByte('\n')
	for _, warning := range e.Warnings {
		fmt.Fprintf(b, "    %s %s\n", cli.Paint(p.Yellow, "warning:"), below("    ", warning))
	}
	told := toldExemptions{}
	for i := range e.Rules {
		r := e.Rules[i]
		r.NotExempt = told.rest(r.NotExempt)
		printExplained(b, &r, p)
	}
}

// toldExemptions are exemptions that do not apply, with the reasons: each is told once, and not for each rule.
type toldExemptions map[string]bool

// rest returns those that have not been told yet.
func (t toldExemptions) rest(all []usher.NotExempt) []usher.NotExempt {
	return slices.DeleteFunc(slices.Clone(all), func(x usher.NotExempt) bool {
		key := x.PolicyRef.String() + strings.Join(x.Why, ";")
		known := t[key]
		t[key] = true
		return known
	})
}

// conversion returns the version in which an entry received the object, if the client used another
// one.
func conversion(e *explain.Explanation) string {
	if e.Requested == "" {
		return ""
	}
	return fmt.Sprintf(" (as %s, converted from %s)", e.Kind, e.Requested)
}

func printExplained(b *strings.Builder, r *explain.Rule, p cli.Palette) {
	name := r.Name
	if r.Policy != (usher.PolicyRef{}) {
		name = r.Policy.String() + " " + r.Name
	}
	if !r.Matched {
		fmt.Fprintf(b, "    %s %s: %s\n", cli.Paint(p.Faint, fmt.Sprintf("%-9s", "no match")), name, cli.Paint(p.Faint, printable.Line(r.Clause)))
		return
	}
	word := string(cmp.Or(r.Outcome, "not run"))
	if r.Ignored {
		word += " (ignored)"
	}
	told := paintOutcome(r.Outcome, fmt.Sprintf("%-9s", word), r.Ignored, p)
	if warns(r.Outcome, r.Checks) {
		told = cli.Paint(p.Yellow, fmt.Sprintf("%-9s", "warned"))
	}
	fmt.Fprintf(b, "    %s %s", told, name)
	if detail := cmp.Or(r.Error, r.Message, r.Unrun); detail != "" {
		fmt.Fprintf(b, ": %s", below("    ", detail))
	}
	fmt.Fprintf(b, "\n      matched by %s\n", printable.Line(r.Clause))
	if r.PodOf != "" {
		fmt.Fprintf(b, "      for the pod that %s would make\n", printable.Line(r.PodOf))
	}
	if r.Unmutated != "" {
		fmt.Fprintf(b, "      the pod is %s\n", cli.Paint(p.Yellow, r.Unmutated))
	}
	for _, s := range r.Steps {
		printProgram(b, &s, p)
	}
	for _, c := range r.Checks {
		fmt.Fprintf(b, "      %s: %s\n", c.Name, cli.Paint(p.Yellow, below("      ", c.Message)))
	}
	printFindingExemptions(b, "      ", r.Exemptions, r.NotExempt)
	for _, op := range r.Patch {
		fmt.Fprintf(b, "      %s\n", cli.Paint(p.Cyan, opText(op)))
	}
	if r.Took > 0 {
		fmt.Fprintf(b, "      took %s", r.Took)
		if r.Cost != nil {
			fmt.Fprintf(b, "; warm %s, %s, %s", r.Cost.Time, cli.Count(int(r.Cost.Allocations), "allocation", "allocations"), cli.Count(int(r.Cost.Bytes), "byte", "bytes"))
		}
		b.WriteByte('\n')
	}
}

// printFindingExemptions tells which exemptions applied to a rule, and why others did not.
func printFindingExemptions(b *strings.Builder, indent string, applied []usher.Exemption, not []usher.NotExempt) {
	for _, x := range applied {
		fmt.Fprintf(b, "%sexempt until %s: %s, owner %s: %s\n", indent, x.ExpiresAt.UTC().Format(time.RFC3339), x.PolicyRef, printable.Line(x.Owner), printable.Line(x.Reason))
	}
	for _, x := range not {
		fmt.Fprintf(b, "%snot exempt: %s: %s\n", indent, x.PolicyRef, printable.Line(strings.Join(x.Why, "; ")))
	}
}

func printProgram(b *strings.Builder, s *explain.Step, p cli.Palette) {
	fmt.Fprintf(b, "      %s: %s\n", s.Name, s.Program)
	if s.Reading != nil {
		for _, v := range s.Reading.Values {
			fmt.Fprintf(b, "        %s = %s\n", v.Name, cli.Paint(p.Bold, valueText(v.Value, v.Absent)))
		}
		for i := range s.Reading.Expressions {
			printExpression(b, &s.Reading.Expressions[i], p)
		}
		if s.Reading.Condition != "" && s.Error == "" {
			fmt.Fprintf(b, "        the condition holds: %t\n", s.Reading.Holds)
		}
	}
	if s.Error != "" {
		fmt.Fprintf(b, "        %s\n", cli.Paint(p.Yellow, below("        ", s.Error)))
	}
}

func opText(op usher.PatchOp) string {
	if op.Op == "remove" {
		return op.Op + " " + printable.Line(op.Path)
	}
	return op.Op + " " + printable.Line(op.Path) + " " + valueText(op.Value, false)
}

// maxValue is the length to which values are cut, so that large ones do not hide the rest.
const maxValue = 201

func valueText(value any, absent bool) string {
	if absent {
		return "absent"
	}
	encoded, err := json.Marshal(value)
	if err != nil {
		return err.Error()
	}
	return printable.CutRunes(string(encoded), maxValue)
}

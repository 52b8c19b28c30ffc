package write

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/cmd/usher/internal/format"
	"github.com/usher-dev/usher/internal/convert"
	"github.com/usher-dev/usher/internal/convert/proof"
	"github.com/usher-dev/usher/internal/printable"
	"github.com/usher-dev/usher/internal/rule"
)

// An importReport has the outcome of an import.
type importReport struct {
	Policies  []importedPolicy `json:"policies"`
	Converted int              `json:"converted"`
	// Partial counts the policies of which something is missing.
	Partial int `json:"partial,omitempty"`
	LeftOut int `json:"leftOut"`
	// Tests counts the tests that --prove ran.
	Tests importTests `json:"tests,omitzero"`
	// NoCases counts the tests that hold, and are not written as cases.
	NoCases int `json:"noCases,omitempty"`
	// Others are the tests that do not hold and are of none of the policies, such as those whose files cannot be
	// read.
	Others []proof.Row `json:"others,omitempty"`
}

// importTests counts tests of policies by their outcome.
type importTests struct {
	Hold     int `json:"hold"`
	Differ   int `json:"differ"`
	Unjudged int `json:"unjudged"`
	// Misnamed counts those of Unjudged that name what is not there.
	Misnamed int `json:"misnamed,omitempty"`
}

func (t *importTests) count(o proof.Outcome) {
	switch o {
	case proof.Holds:
		t.Hold++
	case proof.Differs:
		t.Differ++
	case proof.Unjudged:
		t.Unjudged++
	case proof.Misnamed:
		t.Unjudged++
		t.Misnamed++
	}
}

func (t importTests) String() string {
	return fmt.Sprintf("%s as before, %d differ, %d cannot be judged", cli.Count(t.Hold, "test answers", "tests answer"), t.Differ, t.Unjudged)
}

type importedPolicy struct {
	Policy string `json:"policy"`
	File   string `json:"file"`
	// Becomes are the policies that do the same; none if it was left out.
	Becomes []string `json:"becomes,omitempty"`
	// Reasons are why it was left out, and Missing why parts of it are missing.
	Reasons []rule.Problem `json:"reasons,omitempty"`
	Missing []rule.Problem `json:"missing,omitempty"`
	Notes   []rule.Problem `json:"notes,omitempty"`
	// Tests counts its tests, and Failed are those that do not hold.
	Tests  importTests `json:"tests,omitzero"`
	Failed []proof.Row `json:"failed,omitempty"`
}

// newImportReport returns the outcome of an import. If strict, those with a test that differs are left out of imports.
func newImportReport(imports []convert.Import, rows []proof.Row, own [][]*proof.Row, strict bool) importReport {
	var r importReport
	for i := range imports {
		of := &imports[i]
		p := importedPolicy{Policy: of.Of.Ref().String(), File: of.Of.File}
		for _, row := range own[i] {
			if len(of.To) > 0 {
				p.Tests.count(row.Outcome)
				if row.Outcome != proof.Holds {
					p.Failed = append(p.Failed, *row)
				}
			}
		}
		if strict && p.Tests.Differ > 0 {
			of.Leave(of.Of, "", fmt.Sprintf("%s with another answer than before", cli.Count(p.Tests.Differ, "test ends", "tests end")), "see them, or import it without --strict")
			of.To = nil
		}
		p.Reasons = of.Left
		for _, o := range of.To {
			p.Becomes = append(p.Becomes, nameOf(o))
		}
		switch {
		case len(of.To) == 0:
			r.LeftOut++
		case len(of.Missing) > 0:
			r.Partial++
			p.Missing, p.Notes = of.Missing, of.Notes
		default:
			r.Converted++
			p.Notes = of.Notes
		}
		r.Policies = append(r.Policies, p)
	}
	owned := map[*proof.Row]bool{}
	for _, row := range slices.Concat(own...) {
		owned[row] = true
	}
	for i := range rows {
		r.Tests.count(rows[i].Outcome)
		if !owned[&rows[i]] && rows[i].Outcome != proof.Holds {
			r.Others = append(r.Others, rows[i])
		}
	}
	return r
}

func (r *importReport) print(w io.Writer) error {
	var b bytes.Buffer
	for i := range r.Policies {
		r.Policies[i].print(&b)
	}
	if len(r.Others) > 0 {
		fmt.Fprintln(&b, "tests of no policy here:")
		printRows(&b, r.Others)
	}
	fmt.Fprintln(&b, r.counts())
	if r.Tests != (importTests{}) {
		fmt.Fprintln(&b, r.Tests)
	}
	if r.NoCases > 0 {
		fmt.Fprintf(&b, "not written as cases: %s of one rule or constraint, not shown to hold for the whole policy\n", cli.Count(r.NoCases, "test", "tests"))
	}
	_, err := w.Write(b.Bytes())
	return err
}

func (r *importReport) counts() string {
	if r.Partial == 0 {
		return fmt.Sprintf("%d converted, %d left out", r.Converted, r.LeftOut)
	}
	return fmt.Sprintf("%d converted, %d in part, %d left out", r.Converted, r.Partial, r.LeftOut)
}

func (p *importedPolicy) print(b *bytes.Buffer) {
	switch becomes := printable.Line(strings.Join(p.Becomes, ", ")); {
	case len(p.Becomes) == 0:
		fmt.Fprintf(b, "%s (%s): left out\n", printable.Line(p.Policy), printable.Line(p.File))
	case len(p.Missing) > 0:
		fmt.Fprintf(b, "%s: converted in part to %s\n", printable.Line(p.Policy), becomes)
	default:
		fmt.Fprintf(b, "%s: converted to %s\n", printable.Line(p.Policy), becomes)
	}
	for _, problem := range p.Missing {
		fmt.Fprintf(b, "    missing: %s\n", strings.Replace(problem.String(), "error: ", "", 1))
	}
	for _, problem := range p.Reasons {
		fmt.Fprintf(b, "    %s\n", problem)
	}
	for _, problem := range p.Notes {
		fmt.Fprintf(b, "    note: %s\n", strings.Replace(problem.String(), "warning: ", "", 1))
	}
	if p.Tests == (importTests{}) {
		return
	}
	fmt.Fprintf(b, "    %s\n", p.Tests)
	printRows(b, p.Failed)
}

// printRows prints tests that do not hold, with the reasons.
func printRows(b *bytes.Buffer, rows []proof.Row) {
	for _, row := range rows {
		fmt.Fprintf(b, "        %s (%s) %s: %s\n", printable.Line(row.Name), printable.Line(row.File), row.Outcome, printable.Line(row.Why))
	}
}

// mostReasons is how many reasons a policy has in a comment.
const mostReasons = 5

// markdown returns the report as a comment on a pull request. What is left out comes first.
func (r *importReport) markdown(engine string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "### Import of %s's policies\n\n%s\n", engine, r.counts())
	if r.Tests != (importTests{}) {
		fmt.Fprintf(&b, "\n%s\n", r.Tests)
	}
	rows := make([]string, 0, len(r.Policies)+len(r.Others))
	for rank := range 3 {
		for i := range r.Policies {
			if p := &r.Policies[i]; p.rank() == rank {
				rows = append(rows, p.markdown())
			}
		}
	}
	for _, row := range r.Others {
		rows = append(rows, fmt.Sprintf("| test of no policy here | %s | | %s |\n", format.Code(row.File), format.Prose(row.Why)))
	}
	if len(rows) > 0 {
		b.WriteString("\n| | Policy | Becomes | Why |\n|---|---|---|---|\n")
	}
	for i, row := range rows {
		if b.Len()+len(row) > format.MaxMarkdown {
			fmt.Fprintf(&b, "\n… and %d more.\n", len(rows)-i)
			break
		}
		b.WriteString(row)
	}
	return b.String()
}

// rank is 0 for a policy that is left out, 1 for one that needs a look, and 2 otherwise.
func (p *importedPolicy) rank() int {
	switch {
	case len(p.Becomes) == 0:
		return 0
	case len(p.Missing)+p.Tests.Differ > 0:
		return 1
	}
	return 2
}

func (p *importedPolicy) markdown() string {
	outcome := "converted"
	switch {
	case len(p.Becomes) == 0:
		outcome = "**left out**"
	case len(p.Missing) > 0:
		outcome = "**in part**"
	}
	var why []string
	for _, problem := range slices.Concat(p.Reasons, p.Missing, p.Notes) {
		place := problem.File
		if problem.Line > 0 {
			place = fmt.Sprintf("%s:%d", place, problem.Line)
		}
		text := format.Code(place) + " "
		if problem.Field != "" {
			text += format.Code(problem.Field) + " "
		}
		text += format.Prose(problem.What)
		if problem.Do != "" {
			text += "; " + format.Prose(problem.Do)
		}
		why = append(why, text)
	}
	for _, row := range p.Failed {
		why = append(why, fmt.Sprintf("%s **%s**: %s", format.Code(row.Name), row.Outcome, format.Prose(row.Why)))
	}
	if more := len(why) - mostReasons; more > 0 {
		why = append(why[:mostReasons], fmt.Sprintf("… and %d more", more))
	}
	becomes := make([]string, 0, len(p.Becomes))
	for _, name := range p.Becomes {
		becomes = append(becomes, format.Code(name))
	}
	return fmt.Sprintf("| %s | %s | %s | %s |\n", outcome, format.Code(p.Policy), strings.Join(becomes, "<br>"), strings.Join(why, "<br>"))
}

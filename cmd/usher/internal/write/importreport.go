package write

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/internal/convert"
	"github.com/usher-dev/usher/internal/convert/proof"
	"github.com/usher-dev/usher/internal/printable"
	"github.com/usher-dev/usher/internal/rule"
)

// An importReport has the outcome of an import.
type importReport struct {
	Policies  []importedPolicy `json:"policies"`
	Converted int              `json:"converted"`
	LeftOut   int              `json:"leftOut"`
	// Tests counts the tests that --prove ran.
	Tests importTests `json:"tests,omitzero"`
	// Others are the tests that do not hold and are of none of the policies, such as those whose files cannot be
	// read.
	Others []proof.Row `json:"others,omitempty"`
}

// importTests counts tests of policies by their outcome.
type importTests struct {
	Hold     int `json:"hold"`
	Differ   int `json:"differ"`
	Unjudged int `json:"unjudged"`
}

func (t *importTests) count(o proof.Outcome) {
	switch o {
	case proof.Holds:
		t.Hold++
	case proof.Differs:
		t.Differ++
	case proof.Unjudged:
		t.Unjudged++
	}
}

func (t importTests) String() string {
	return fmt.Sprintf("%s as before, %d differ, %d cannot be judged", cli.Count(t.Hold, "test answers", "tests answer"), t.Differ, t.Unjudged)
}

type importedPolicy struct {
	Policy string `json:"policy"`
	File   string `json:"file"`
	// Becomes are the policies that do the same; none if it was left out.
	Becomes []string       `json:"becomes,omitempty"`
	Reasons []rule.Problem `json:"reasons,omitempty"`
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
		if len(of.To) == 0 {
			r.LeftOut++
		} else {
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
	fmt.Fprintf(&b, "%d converted, %d left out\n", r.Converted, r.LeftOut)
	if r.Tests != (importTests{}) {
		fmt.Fprintln(&b, r.Tests)
	}
	_, err := w.Write(b.Bytes())
	return err
}

func (p *importedPolicy) print(b *bytes.Buffer) {
	if len(p.Becomes) > 0 {
		fmt.Fprintf(b, "%s: converted to %s\n", printable.Line(p.Policy), printable.Line(strings.Join(p.Becomes, ", ")))
	} else {
		fmt.Fprintf(b, "%s (%s): left out\n", printable.Line(p.Policy), printable.Line(p.File))
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

// Package text writes explanations for people.
package text

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/explain"
	"github.com/usher-dev/usher/internal/printable"
	"github.com/usher-dev/usher/internal/rule/allowance"
)

// Few is the number of rules without a match that explanations of all policies list.
const Few = 5

// Phase writes the explanation of one decision, indented by two spaces: first the rules that deny, then the others that
// matched, then those that did not; if these are more than most, their number is written alone, and Phase returns true.
// It has the messages of policies as they are: what shows it on a terminal replaces the characters that control it.
func Phase(b *strings.Builder, e *explain.Explanation, most int, p printable.Palette) (counted bool) {
	fmt.Fprintf(b, "  %s%s: %s", e.Entry, conversion(e), e.Verdict)
	if e.Verdict == usher.Deny {
		fmt.Fprintf(b, ": %s", printable.Paint(p.Red, Below("  ", cmp.Or(e.Message, e.Reason, "without a word"))))
	}
	b.WriteByte('\n')
	for _, warning := range e.Warnings {
		fmt.Fprintf(b, "    %s %s\n", printable.Paint(p.Yellow, "warning:"), Below("    ", warning))
	}
	told := ToldExemptions{}
	matched, others := inOrder(e.Rules)
	for _, r := range matched {
		r.NotExempt = told.Rest(r.NotExempt)
		printExplained(b, &r, p)
	}
	if len(others) > most {
		fmt.Fprintf(b, "    %s\n", printable.Paint(p.Faint, fmt.Sprintf("%d rules do not match", len(others))))
		return true
	}
	for i := range others {
		printExplained(b, &others[i], p)
	}
	return false
}

// inOrder returns the rules that matched, those that deny first, and the others. Otherwise they are in the order of their evaluation.
func inOrder(all []explain.Rule) (matched, others []explain.Rule) {
	for i := range all {
		if all[i].Matched {
			matched = append(matched, all[i])
		} else {
			others = append(others, all[i])
		}
	}
	slices.SortStableFunc(matched, func(a, b explain.Rule) int {
		return cmp.Compare(Rank(a.Outcome, a.Ignored), Rank(b.Outcome, b.Ignored))
	})
	return matched, others
}

// Rank is 0 for the outcome of a rule that denies, 1 for others: what denies is told first.
func Rank(o usher.Outcome, ignored bool) int {
	if !ignored && (o == usher.Rejected || o == usher.Failed) {
		return 0
	}
	return 1
}

// ToldExemptions are exemptions that do not apply, with the reasons: each is told once, and not for each rule.
type ToldExemptions map[string]bool

// Rest returns those that have not been told yet.
func (t ToldExemptions) Rest(all []usher.NotExempt) []usher.NotExempt {
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

func printExplained(b *strings.Builder, r *explain.Rule, p printable.Palette) {
	name := r.Name
	if r.Policy != (usher.PolicyRef{}) {
		name = r.Policy.String() + " " + r.Name
	}
	if !r.Matched {
		fmt.Fprintf(b, "    %s %s: %s\n", printable.Paint(p.Faint, fmt.Sprintf("%-9s", "no match")), name, printable.Paint(p.Faint, printable.Line(r.Clause)))
		return
	}
	told := PaintOutcome(r.Outcome, r.Checks, r.Ignored, 9, p)
	fmt.Fprintf(b, "    %s %s", told, name)
	if detail := cmp.Or(r.Error, r.Message, r.Unrun); detail != "" {
		fmt.Fprintf(b, ": %s", Below("    ", detail))
	}
	fmt.Fprintf(b, "\n      matched by %s\n", printable.Line(r.Clause))
	if r.PodOf != "" {
		fmt.Fprintf(b, "      for the pod that %s would make\n", printable.Line(r.PodOf))
	}
	if r.Unmutated != "" {
		fmt.Fprintf(b, "      the pod is %s\n", printable.Paint(p.Yellow, r.Unmutated))
	}
	for _, s := range r.Steps {
		printProgram(b, &s, p)
	}
	for _, c := range r.Checks {
		fmt.Fprintf(b, "      %s: %s\n", c.Name, printable.Paint(p.Yellow, Below("      ", c.Message)))
		MessageError(b, "        ", &c)
		if advice := allowance.Advice(c.Message); c.Failed && advice != "" {
			fmt.Fprintf(b, "        %s\n", advice)
		}
	}
	Exemptions(b, "      ", r.Exemptions, r.NotExempt)
	for _, op := range r.Patch {
		fmt.Fprintf(b, "      %s\n", printable.Paint(p.Cyan, opText(op)))
	}
	if r.Took > 0 {
		fmt.Fprintf(b, "      took %s", r.Took)
		switch {
		case r.Cost == nil:
		case r.Cost.Stopped > 0:
			fmt.Fprintf(b, "; stopped at the limit of %s", r.Cost.Stopped)
		default:
			fmt.Fprintf(b, "; warm %s, %s, %s", r.Cost.Time, count(r.Cost.Allocations, "allocation"), count(r.Cost.Bytes, "byte"))
		}
		b.WriteByte('\n')
	}
}

// MessageError tells why a message is not the one that the policy computes.
func MessageError(b *strings.Builder, indent string, c *usher.Check) {
	if c.MessageError != "" {
		fmt.Fprintf(b, "%s%s\n", indent, Below(indent, c.MessageError))
	}
}

// Exemptions tells which exemptions applied to a rule, and why others did not.
func Exemptions(b *strings.Builder, indent string, applied []usher.Exemption, not []usher.NotExempt) {
	for _, x := range applied {
		fmt.Fprintf(b, "%sexempt until %s: %s, owner %s: %s\n", indent, x.ExpiresAt.UTC().Format(time.RFC3339), x.PolicyRef, printable.Line(x.Owner), printable.Line(x.Reason))
	}
	for _, x := range not {
		fmt.Fprintf(b, "%snot exempt: %s: %s\n", indent, x.PolicyRef, printable.Line(strings.Join(x.Why, "; ")))
	}
}

func printProgram(b *strings.Builder, s *explain.Step, p printable.Palette) {
	fmt.Fprintf(b, "      %s: %s\n", s.Name, s.Program)
	if s.Reading != nil {
		for _, v := range s.Reading.Values {
			fmt.Fprintf(b, "        %s = %s\n", v.Name, printable.Paint(p.Bold, Value(v.Value, v.Absent)))
		}
		for i := range s.Reading.Expressions {
			printExpression(b, &s.Reading.Expressions[i], p)
		}
		if s.Reading.Condition != "" && s.Error == "" {
			fmt.Fprintf(b, "        the condition holds: %t\n", s.Reading.Holds)
		}
	}
	if s.Error != "" {
		fmt.Fprintf(b, "        %s\n", printable.Paint(p.Yellow, Below("        ", s.Error)))
	}
}

func opText(op usher.PatchOp) string {
	if op.Op == "remove" {
		return op.Op + " " + printable.Line(op.Path)
	}
	return op.Op + " " + printable.Line(op.Path) + " " + Value(op.Value, false)
}

// maxValue is the length to which values are cut, so that large ones do not hide the rest.
const maxValue = 201

// Value returns a value as JSON, cut to a line.
func Value(value any, absent bool) string {
	if absent {
		return "absent"
	}
	encoded, err := json.Marshal(value)
	if err != nil {
		return err.Error()
	}
	return printable.CutRunes(string(encoded), maxValue)
}

// count is a number with its noun.
func count(n uint64, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}

// Word returns the word for what a rule did: one that passed may have warned, or said something for the audit log alone.
func Word(outcome usher.Outcome, checks []usher.Check) string {
	says := func(action usher.Action) bool {
		return slices.ContainsFunc(checks, func(c usher.Check) bool { return slices.Contains(c.Actions, action) })
	}
	switch {
	case outcome == usher.Passed && says(usher.ActWarn):
		return "warned"
	case outcome == usher.Passed && says(usher.ActAudit):
		return "audited"
	}
	return string(outcome)
}

// Below returns text that others wrote, with the lines after the first one indented: none looks like
// one of the report.
func Below(indent, text string) string {
	return strings.ReplaceAll(text, "\n", "\n"+indent+"  ")
}

// PaintOutcome returns the word for what a rule did, in its colour, as wide as others.
func PaintOutcome(o usher.Outcome, checks []usher.Check, ignored bool, width int, p printable.Palette) string {
	word := cmp.Or(Word(o, checks), "not run")
	mild := word != string(o) && o == usher.Passed
	if ignored {
		word += " (ignored)"
	}
	word = fmt.Sprintf("%-*s", width, word)
	switch {
	case o == usher.Changed:
		return printable.Paint(p.Cyan, word)
	case mild, o == usher.Failed && ignored:
		return printable.Paint(p.Yellow, word)
	case o == usher.Rejected, o == usher.Failed:
		return printable.Paint(p.Red, word)
	case o == usher.Passed:
		return printable.Paint(p.Green, word)
	}
	return word
}

package try

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/cmd/usher/internal/policies"
	"github.com/usher-dev/usher/internal/explain/text"
	"github.com/usher-dev/usher/internal/printable"
	"github.com/usher-dev/usher/internal/yamldiff"
)

type decideReport struct {
	Decisions []Judgement `json:"decisions"`
	Allowed   int         `json:"allowed"`
	Changed   int         `json:"changed"`
	Warned    int         `json:"warned"`
	Denied    int         `json:"denied"`
	// PodsDenied is how many of the objects that are allowed make pods that are denied.
	PodsDenied int `json:"podsDenied"`
	asker
	policies.Idle
}

func (r *decideReport) add(j Judgement) {
	r.Decisions = append(r.Decisions, j)
	if j.Allowed && len(j.Warnings) > 0 {
		r.Warned++
	}
	if j.podsDenied() {
		r.PodsDenied++
	}
	switch {
	case !j.Allowed:
		r.Denied++
	case j.changed():
		r.Changed++
		r.Allowed++
	default:
		r.Allowed++
	}
}

// print writes the report for people. Webhooks do not return their rules: rules says whether they
// are known.
func (r *decideReport) print(w io.Writer, p cli.Palette, rules bool) error {
	var b strings.Builder
	r.asker.print(&b, p)
	for i := range r.Decisions {
		if i > 0 {
			b.WriteByte('\n')
		}
		if err := r.Decisions[i].print(&b, p, rules); err != nil {
			return err
		}
	}
	if len(r.Decisions) > 1 {
		warned := ""
		if r.Warned > 0 {
			warned = fmt.Sprintf(", %d warned", r.Warned)
		}
		pods := ""
		if r.PodsDenied > 0 {
			pods = fmt.Sprintf(", pods of %d denied", r.PodsDenied)
		}
		fmt.Fprintf(&b, "\n%s: %d allowed (%d changed%s), %d denied%s\n", cli.Count(len(r.Decisions), "object", "objects"), r.Allowed, r.Changed, warned, r.Denied, pods)
	}
	r.Idle.Print(&b, p)
	_, err := io.WriteString(w, b.String())
	return err
}

func (j *Judgement) print(b *strings.Builder, p cli.Palette, rules bool) error {
	fmt.Fprintf(b, "%s: %s %s: %s\n", printable.Line(j.File), j.Operation, cli.Paint(p.Bold, printable.Line(j.Name.String())), j.verdict(p))
	printUnsent(b, j.Unsent, p)
	if j.Message != "" || j.Reason != "" {
		color := p.Red
		if j.Unsent != "" {
			color = p.Faint
		}
		fmt.Fprintf(b, "  %s\n", cli.Paint(color, text.Below("  ", cmp.Or(j.Message, j.Reason))))
	}
	for _, warning := range j.Warnings {
		fmt.Fprintf(b, "  %s %s\n", cli.Paint(p.Yellow, "warning:"), text.Below("  ", warning))
	}
	if rules {
		j.printRules(b, p)
	}
	printMissing(b, "  ", "", "--facts", j.MissingFacts, p)
	if !j.podsDenied() {
		printUnread(b, j.LeftOut, p)
	}
	if j.changed() {
		changes, err := changesOf(j.before, j.Result, p)
		if err != nil {
			return err
		}
		b.WriteString(changes)
	}
	printInvalid(b, j.Invalid, p)
	printPresets(b, j.Presets, p)
	if err := j.Pods.print(b, p); err != nil {
		return err
	}
	if command := j.exemption(); command != "" {
		fmt.Fprintf(b, "  %s its pods are refused by %s: %s exempts them\n", cli.Paint(p.Yellow, "hint:"), printable.Line(nameAll(j.refusing())), command)
	}
	return nil
}

func (j *Judgement) verdict(p cli.Palette) string {
	warned := ""
	if len(j.Warnings) > 0 {
		warned = ", " + cli.Paint(p.Yellow, "warned")
	}
	switch {
	case !j.Allowed && j.Unsent != "":
		return unsentDenial(p)
	case !j.Allowed && j.Code != 0:
		return cli.Paint(p.Red, fmt.Sprintf("denied (%s, code %d)", j.Phase, j.Code))
	case !j.Allowed:
		return cli.Paint(p.Red, fmt.Sprintf("denied (%s)", j.Phase))
	case j.changed():
		return allowedBy(j.LeftOut, p) + cli.Paint(p.Green, ", changed") + warned
	}
	return allowedBy(j.LeftOut, p) + warned
}

// allowedBy is the verdict on a request that no policy refuses, some kinds of which may be left out.
func allowedBy(leftOut []string, p cli.Palette) string {
	if len(leftOut) > 0 {
		return cli.Paint(p.Yellow, "allowed by the policies that you may read")
	}
	return cli.Paint(p.Green, "allowed")
}

// unsentDenial is the verdict on a request that policies refuse, but are not asked about.
func unsentDenial(p cli.Palette) string {
	return cli.Paint(p.Yellow, "not sent to Usher, whose policies would deny it")
}

// printUnsent tells that what policies say of a request has no effect.
func printUnsent(b *strings.Builder, why string, p cli.Palette) {
	if why != "" {
		fmt.Fprintf(b, "  %s API servers do not send this request to Usher, whose policies have no effect on it: %s\n", cli.Paint(p.Yellow, "hint:"), printable.Line(why))
	}
}

// printUnread tells that policies may refuse a request that could not be read.
func printUnread(b *strings.Builder, leftOut []string, p cli.Palette) {
	if text := policies.Unread(leftOut); text != "" {
		fmt.Fprintf(b, "  %s %s\n", cli.Paint(p.Yellow, "hint:"), text)
	}
}

func (j *Judgement) printRules(b *strings.Builder, p cli.Palette) {
	matched := 0
	told, elsewhere := text.ToldExemptions{}, map[usher.PolicyRef]bool{}
	inOrder := slices.Clone(j.Rules)
	slices.SortStableFunc(inOrder, func(a, b ruleResult) int {
		return cmp.Compare(text.Rank(a.Outcome, a.Ignored), text.Rank(b.Outcome, b.Ignored))
	})
	for i := range inOrder {
		r := &inOrder[i]
		if r.fillsIn() {
			continue
		}
		matched++
		fmt.Fprintf(b, "  %s %s %s", text.PaintOutcome(r.Outcome, r.Checks, r.Ignored, 8, p), r.Policy, r.Rule)
		if r.PodOf != "" {
			fmt.Fprintf(b, " (the pod of %s)", printable.Line(r.PodOf))
		}
		if detail := cmp.Or(r.Error, r.Message); detail != "" {
			fmt.Fprintf(b, ": %s", text.Below("  ", detail))
		}
		b.WriteByte('\n')
		near := slices.DeleteFunc(told.Rest(r.NotExempt), func(x usher.NotExempt) bool {
			if x.Elsewhere {
				elsewhere[x.PolicyRef] = true
			}
			return x.Elsewhere
		})
		text.Exemptions(b, "    ", r.Exemptions, near)
		// What is for the audit log alone is in no message.
		if len(r.Checks) > 1 || text.Word(r.Outcome, r.Checks) == "audited" {
			printChecks(b, r.Checks)
		} else if len(r.Checks) == 1 {
			text.MessageError(b, "    ", &r.Checks[0])
		}
	}
	if matched == 0 {
		b.WriteString("  no rule matched\n")
	}
	if len(elsewhere) > 0 {
		fmt.Fprintf(b, "  not exempt: %s for other objects, which 'usher explain' lists\n", cli.Count(len(elsewhere), "exemption", "exemptions"))
	}
	if len(j.NearMatches) == 0 {
		return
	}
	b.WriteString("  nearly matched:\n")
	for _, n := range j.NearMatches {
		fmt.Fprintf(b, "    %s %s: %s\n", n.Policy, n.Rule, cli.Paint(p.Faint, printable.Line(n.Mismatch)))
	}
}

// printChecks lists what the parts of a rule say: the message of the rule is that of the first.
func printChecks(b *strings.Builder, checks []usher.Check) {
	for i := range checks {
		c := &checks[i]
		fmt.Fprintf(b, "    %s: %s\n", cmp.Or(c.Field, c.Validation, c.Name), text.Below("    ", c.Message))
		text.MessageError(b, "      ", c)
	}
}

// changesOf returns a unified diff of two objects as YAML.
func changesOf(before, after map[string]any, p cli.Palette) (string, error) {
	changes, err := yamldiff.Of(before, after)
	if err != nil {
		return "", err
	}
	return paintDiff(changes, p), nil
}

// paintDiff indents and colors a diff.
func paintDiff(changes string, p cli.Palette) string {
	var b strings.Builder
	for line := range strings.Lines(changes) {
		text := strings.TrimSuffix(line, "\n")
		switch {
		case strings.HasPrefix(text, "@@"):
			text = cli.Paint(p.Cyan, text)
		case strings.HasPrefix(text, "+"):
			text = cli.Paint(p.Green, text)
		case strings.HasPrefix(text, "-"):
			text = cli.Paint(p.Red, text)
		}
		b.WriteString("  " + text + "\n")
	}
	return b.String()
}

// printMissing tells which facts were taken to be absent, by what, if that is known, and with which flags they are given.
func printMissing(b *strings.Builder, indent, by, with string, names []string, p cli.Palette) {
	for _, name := range names {
		name = printable.Line(name)
		what := name + " is not known: name a file that has it"
		if kind, ok := strings.CutSuffix(name, " *"); ok {
			what = "no " + kind + " is known: name a file that has them"
		}
		fmt.Fprintf(b, "%s%s %s%s with %s\n", indent, cli.Paint(p.Yellow, "hint:"), by, what, with)
	}
}

package format

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/internal/audit/judge"
	"github.com/usher-dev/usher/internal/audit/result"
	"github.com/usher-dev/usher/internal/printable"
)

// Layout is how a report is printed for people. The zero Layout works.
type Layout struct {
	Palette cli.Palette
	// Width is that of the terminal; 0 means that lines have any length.
	Width int
	// ByPolicy groups the results by policy and not by object.
	ByPolicy bool
}

// Text prints a report for people: the results in groups, what was not judged and why, the counts
// of the policies with results, and a line that sums it all up.
func Text(w io.Writer, r *Report, l Layout) error {
	t := text{Layout: l}
	t.groups(slices.DeleteFunc(slices.Clone(r.Results), func(one Result) bool { return one.Forbidden != "" }))
	t.forbidden(r.Results)
	t.notJudged(r.NotJudged)
	t.policies(r)
	t.end(r)
	_, err := io.WriteString(w, t.String())
	return err
}

type text struct {
	strings.Builder
	Layout
}

func (t *text) groups(results []Result) {
	if t.ByPolicy {
		t.byPolicy(results)
	} else {
		t.byObject(results)
	}
}

func (t *text) byObject(results []Result) {
	for from := 0; from < len(results); {
		first := &results[from]
		to := from
		for to < len(results) && results[to].Object == first.Object && results[to].File == first.File {
			to++
		}
		heading := title(first.Object)
		if first.File != "" && first.File != "-" {
			heading += " (" + printable.Line(first.File) + ")"
		}
		t.WriteString(cli.Paint(t.Palette.Bold, heading) + "\n")
		for i := range results[from:to] {
			one := &results[from+i]
			sentence := printable.Line(one.sentence())
			if one.Policy.Name != "" {
				sentence += " (" + printable.Line(one.Policy.String()) + ")"
			}
			if one.Line > 0 {
				sentence = fmt.Sprintf("line %d: %s", one.Line, sentence)
			}
			t.result(one, sentence)
		}
		t.WriteByte('\n')
		from = to
	}
}

func (t *text) byPolicy(results []Result) {
	sorted := slices.Clone(results)
	slices.SortStableFunc(sorted, func(a, b Result) int { return comparePolicies(a.Policy, b.Policy) })
	for i := range sorted {
		one := &sorted[i]
		if i == 0 || sorted[i-1].Policy != one.Policy {
			if i > 0 {
				t.WriteByte('\n')
			}
			t.WriteString(cli.Paint(t.Palette.Bold, policyName(one.Policy)) + "\n")
		}
		object := title(one.Object)
		if place := one.place(); place != "" {
			object += " (" + place + ")"
		}
		t.result(one, object+": "+printable.Line(one.sentence()))
	}
	if len(sorted) > 0 {
		t.WriteByte('\n')
	}
}

// result prints one result: its status and severity in columns, then the text.
func (t *text) result(r *Result, sentence string) {
	plain := fmt.Sprintf("%-5s  %-8s", r.Status, cmp.Or(printable.Line(string(r.Severity)), "-"))
	t.wrap("  ", cli.Paint(t.colour(r.Status), plain[:5])+plain[5:], plain, sentence)
}

func (t *text) colour(s result.Status) string {
	switch s {
	case result.Error, result.Fail:
		return t.Palette.Red
	case result.Warn:
		return t.Palette.Yellow
	case result.Skip:
		return t.Palette.Faint
	case result.Pass:
		return t.Palette.Green
	}
	return ""
}

// wrap prints text after a label, and continues it below its beginning. The label is painted; plain
// is what it looks like.
func (t *text) wrap(indent, label, plain, sentence string) {
	begin := utf8.RuneCountInString(indent+plain) + 2
	lines := []string{sentence}
	if width := t.Width - begin; width >= 20 {
		lines = fold(sentence, width)
	}
	t.WriteString(indent + label + "  " + lines[0] + "\n")
	for _, line := range lines[1:] {
		t.WriteString(strings.Repeat(" ", begin) + line + "\n")
	}
}

// fold breaks text into lines of a width, between words. Longer words have a line of their own.
func fold(sentence string, width int) []string {
	lines := []string{""}
	for word := range strings.SplitSeq(sentence, " ") {
		last := &lines[len(lines)-1]
		switch {
		case *last == "":
			*last = word
		case utf8.RuneCountInString(*last)+1+utf8.RuneCountInString(word) <= width:
			*last += " " + word
		default:
			lines = append(lines, word)
		}
	}
	return lines
}

// forbidden prints in one line which kinds the user may not list.
func (t *text) forbidden(results []Result) {
	var kinds []string
	for i := range results {
		if of := printable.Line(results[i].Forbidden); of != "" && !slices.Contains(kinds, of) {
			kinds = append(kinds, of)
		}
	}
	if len(kinds) > 0 {
		t.wrap("", cli.Paint(t.Palette.Red, "not read:"), "not read:", "you may not list "+strings.Join(kinds, ", ")+": what policies say of them is not known, and counts as an error")
		t.WriteByte('\n')
	}
}

// notJudged prints the rules that say nothing of objects, and why.
func (t *text) notJudged(rules []judge.Unjudged) {
	for _, r := range rules {
		t.wrap("", cli.Paint(t.Palette.Yellow, "not judged:"), "not judged:", printable.Line(r.Policy.String()+" "+r.Rule+": "+r.Reason))
	}
	if len(rules) > 0 {
		t.WriteByte('\n')
	}
}

// policies prints the counts of each policy with results that are no passes.
func (t *text) policies(r *Report) {
	rows := slices.DeleteFunc(slices.Clone(r.Policies), func(p result.PolicySummary) bool {
		return p.Summary.Error+p.Summary.Fail+p.Summary.Warn+p.Summary.Skip == 0
	})
	if len(rows) < 2 {
		return
	}
	slices.SortStableFunc(rows, func(a, b result.PolicySummary) int {
		return cmp.Or(cmp.Compare(b.Summary.Error, a.Summary.Error), cmp.Compare(b.Summary.Fail, a.Summary.Fail), cmp.Compare(b.Summary.Warn, a.Summary.Warn))
	})
	table := tabwriter.NewWriter(t, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "ERROR\tFAIL\tWARN\tSKIP\tPASS\t  POLICY")
	for _, p := range rows {
		s := p.Summary
		fmt.Fprintf(table, "%d\t%d\t%d\t%d\t%d\t  %s\n", s.Error, s.Fail, s.Warn, s.Skip, s.Pass, printable.Line(p.String()))
	}
	// Writing to a strings.Builder cannot fail.
	_ = table.Flush()
	t.WriteByte('\n')
}

// end prints what nothing was said about, and the counts of all.
func (t *text) end(r *Report) {
	if unmatched := r.Unmatched(); len(unmatched) > 0 {
		names := make([]string, 0, len(unmatched))
		for _, ref := range unmatched {
			names = append(names, printable.Line(ref.String()))
		}
		t.wrap("", cli.Paint(t.Palette.Yellow, "for none of the objects:"), "for none of the objects:", strings.Join(names, ", "))
	}
	for _, k := range r.Kinds {
		if !k.Complete && k.Error == "" {
			t.wrap("", cli.Paint(t.Palette.Yellow, "not complete:"), "not complete:", printable.Line(k.String())+": "+cli.Count(k.Objects, "object", "objects")+" so far, "+strconv.Itoa(k.Backlog)+" to be judged")
		}
	}
	if listed := r.Summary.Error + r.Summary.Fail + r.Summary.Warn - r.listed(); listed > 0 {
		t.wrap("", cli.Paint(t.Palette.Yellow, "not listed:"), "not listed:", cli.Count(listed, "result", "results")+" more than are listed for a namespace: read it with a filter, or correct the listed ones first")
	}
	colour := t.Palette.Green
	switch {
	case r.Summary.Error+r.Summary.Fail > 0:
		colour = t.Palette.Red
	case r.Summary.Warn > 0 || r.Summary == (result.Summary{}):
		colour = t.Palette.Yellow
	}
	if unread := r.Unread(); unread != "" {
		t.wrap("", cli.Paint(t.Palette.Yellow, "left out:"), "left out:", unread)
	}
	if r.Nothing() {
		t.WriteString(cli.Paint(t.Palette.Yellow, NothingAudited) + "\n")
	}
	t.WriteString(r.extent() + ": " + cli.Paint(colour, r.counted()) + "\n")
}

// listed is how many results of those that count are listed.
func (r *Report) listed() int {
	n := 0
	for i := range r.Results {
		if s := r.Results[i].Status; s != result.Skip && s != result.Pass {
			n++
		}
	}
	return n
}

// extent is how much was audited, in words.
func (r *Report) extent() string {
	parts := []string{cli.Count(len(r.Policies), "policy", "policies")}
	if r.Partial {
		parts[0] += " with results"
	}
	if r.Objects >= 0 {
		parts = slices.Insert(parts, 0, cli.Count(r.Objects, "object", "objects")+r.ofKinds())
	}
	if r.Namespace != "" {
		parts = slices.Insert(parts, 0, "namespace "+printable.Line(r.Namespace))
	}
	return strings.Join(parts, ", ")
}

// ofKinds says of how many kinds the objects of a cluster are: those of which there are some.
func (r *Report) ofKinds() string {
	kinds := 0
	for i := range r.Kinds {
		if r.Kinds[i].Objects > 0 {
			kinds++
		}
	}
	if kinds == 0 {
		return ""
	}
	return " of " + cli.Count(kinds, "kind", "kinds")
}

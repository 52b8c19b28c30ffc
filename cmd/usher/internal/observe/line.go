package observe

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/cmd/usher/internal/served"
	"github.com/usher-dev/usher/internal/observe/recent"
	"github.com/usher-dev/usher/internal/printable"
)

// shownPolicies is how many policies a line names.
const shownPolicies = 3

// A printer prints decisions.
type printer struct {
	flags   *watchFlags
	streams cli.Streams
	palette cli.Palette
	repeats repeats
	// shown is what was printed last.
	shown *repeat
	// hinted says that it was said how to see messages.
	hinted bool
	// past are the lines of --once, which are printed at the end in the order of time, and newest is the latest time of
	// those that are printed at once.
	past   []pastLine
	newest time.Time
}

// A pastLine is a line about a time.
type pastLine struct {
	at   time.Time
	text string
}

// write prints a line, or keeps it until the end.
func (p *printer) write(at time.Time, text string) error {
	if p.flags.once {
		p.past = append(p.past, pastLine{at, text})
		return nil
	}
	if at.After(p.newest) {
		p.newest = at
	}
	_, err := io.WriteString(p.streams.Out, text)
	return err
}

// print prints an item: as JSON or as a line. Losses and notices are for people and, of losses, for
// programs.
func (p *printer) print(i served.Item) error {
	if i.Current {
		return nil
	}
	if i.Notice != "" {
		_, err := fmt.Fprintf(p.streams.Err, "usher watch: replica %s: %s\n", printable.Line(i.Replica), printable.Line(i.Notice))
		return err
	}
	if p.flags.output.Value == "json" {
		return p.json(i)
	}
	if i.Decision == nil {
		_, err := fmt.Fprintf(p.streams.Err, "usher watch: replica %s: %d decisions are lost: they were overwritten before they were read\n", printable.Line(i.Replica), i.Lost)
		return err
	}
	key, title := p.repeatOf(i.Decision)
	one, ended := p.repeats.add(key, title, i.Decision.Time)
	if one.longest == nil || one.longest.TookSeconds < i.Decision.TookSeconds {
		one.longest = i.Decision
	}
	if err := p.tell(ended...); err != nil {
		return err
	}
	if one.n > 1 {
		if one.n < one.due {
			return nil
		}
		one.due *= 10
		return p.tell(one)
	}
	if err := p.tell(p.shown); err != nil {
		return err
	}
	p.shown = one
	text := p.line(i)
	if p.flags.explain {
		text += p.explain(i)
	}
	if err := p.write(i.Decision.Time, text); err != nil {
		return err
	}
	if p.flags.explain || p.hinted || i.Decision.Verdict != string(usher.Deny) && !i.Decision.Failed {
		return nil
	}
	p.hinted = true
	if p.flags.once {
		return nil // It comes after the lines.
	}
	return p.hint()
}

// hint says how to see messages, which replicas do not keep.
func (p *printer) hint() error {
	_, err := fmt.Fprintln(p.streams.Err, "usher watch: replicas keep no messages: with --explain each decision has its rules, and the command that shows its messages")
	return err
}

func (p *printer) json(i served.Item) error {
	if i.Decision == nil {
		return cli.EncodeJSON(p.streams.Out, struct {
			Replica string `json:"replica"`
			Lost    uint64 `json:"lost"`
		}{i.Replica, i.Lost}, "")
	}
	return cli.EncodeJSON(p.streams.Out, struct {
		Replica string `json:"replica"`
		*recent.Decision
	}{i.Replica, i.Decision}, "")
}

// line returns a decision as one line.
func (p *printer) line(i served.Item) string {
	d := i.Decision
	word, colour := p.verdict(d)
	parts := []string{
		cli.Paint(p.palette.Faint, p.flags.since.clock(d.Time)), cli.Paint(colour, fmt.Sprintf("%-7s", word)),
		printable.Line(d.Operation), cli.Paint(p.palette.Bold, what(d)), cli.Paint(p.palette.Cyan, printable.Line(d.User)),
	}
	if marks := marks(d); len(marks) > 0 {
		parts = append(parts, cli.Paint(p.palette.Yellow, "["+strings.Join(marks, ", ")+"]"))
	}
	if policies, more := policiesOf(d); more && !p.flags.explain {
		parts = append(parts, policies+": --explain names them")
	} else if policies != "" {
		parts = append(parts, policies)
	}
	if text := p.took(d); text != "" {
		parts = append(parts, cli.Paint(p.palette.Yellow, text))
	}
	if i.Replicas > 1 {
		parts = append(parts, cli.Paint(p.palette.Faint, "("+printable.Line(i.Replica)+")"))
	}
	return strings.Join(parts, " ") + "\n"
}

// took says how long a slow decision took, and which rule most of that.
func (p *printer) took(d *recent.Decision) string {
	seconds := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)).Round(time.Millisecond) }
	switch s := d.Slowest; {
	case s != nil:
		return fmt.Sprintf("took %s, of which %s %s took %s", seconds(d.TookSeconds), printable.Line(s.Policy.String()), printable.Line(s.Rule), seconds(s.TookSeconds))
	case p.flags.slower > 0 && d.Candidate == nil:
		return fmt.Sprintf("took %s", seconds(d.TookSeconds))
	}
	return ""
}

func (p *printer) verdict(d *recent.Decision) (word, colour string) {
	if d.Candidate != nil {
		return p.difference(d)
	}
	switch d.Verdict {
	case string(usher.Deny):
		return "denied", p.palette.Red
	case string(usher.Allow):
		return "allowed", p.palette.Green
	case recent.Errored:
		return "error", p.palette.Red
	}
	return "no op.", p.palette.Faint
}

// difference says how the decision of a candidate differs.
func (p *printer) difference(d *recent.Decision) (word, colour string) {
	colour = p.palette.Yellow
	for i, kind := range d.Differences {
		switch {
		case kind == "noOpinion":
			kind = "no op."
		case i == 0 && (kind == "denied" || kind == "failing"):
			colour = p.palette.Red
		case i == 0 && kind == "allowed":
			colour = p.palette.Green
		}
		if i > 0 {
			word += ","
		}
		word += printable.Line(kind) + "+"
	}
	return word, colour
}

// what names what a request is about.
func what(d *recent.Decision) string {
	kind := d.Kind
	if kind == "" {
		kind = d.Resource
	}
	if d.Path != "" {
		return printable.Line(d.Path)
	}
	if d.Subresource != "" {
		kind += "/" + d.Subresource
	}
	name := d.Name
	if d.Namespace != "" && d.Kind != "Namespace" {
		if name == "" {
			name = "(new)"
			if d.Kind == "" {
				name = "*"
			}
		}
		name = d.Namespace + "/" + name
	}
	return strings.TrimSpace(printable.Line(kind) + " " + printable.Line(name))
}

func marks(d *recent.Decision) (all []string) {
	for _, mark := range []struct {
		set  bool
		word string
	}{
		// API servers ask about most requests twice.
		{d.Phase == string(usher.Mutate), "mutating"},
		{d.Changed, "changed"}, {d.Warned, "warned"}, {d.Failed, "failed"},
		{slices.ContainsFunc(d.Rules, func(r recent.Rule) bool { return r.Audited }), "audited"},
		{slices.ContainsFunc(d.Rules, func(r recent.Rule) bool { return len(r.Exemptions) > 0 }), "exempted"},
		{slices.ContainsFunc(d.Rules, func(r recent.Rule) bool { return r.Outcome == usher.WouldDeny }), "would be denied"},
		{d.DryRun, "dry run"},
	} {
		if mark.set {
			all = append(all, mark.word)
		}
	}
	return all
}

// policiesOf names the policies that made a difference, those that failed first, or the first ones if there are more.
func policiesOf(d *recent.Decision) (names string, more bool) {
	var all []string
	if d.Candidate != nil {
		all = append(all, printable.Line(d.Candidate.String()))
	}
	seen := map[usher.PolicyRef]bool{}
	for _, failed := range []bool{true, false} {
		for _, r := range d.Rules {
			if seen[r.Policy] || failed != (len(r.FailedAt) > 0) {
				continue
			}
			seen[r.Policy] = true
			name := r.Policy.String()
			if r.Written {
				name = "policy admission"
			}
			if failed {
				name += " (failed at " + strings.Join(r.FailedAt, ", ") + ")"
			}
			all = append(all, printable.Line(name))
		}
	}
	if left := len(all) - shownPolicies; left > 0 {
		all, more = append(all[:shownPolicies], fmt.Sprintf("%d more", left)), true
	}
	return strings.Join(all, ", "), more
}

// did returns the word for what a rule did.
func did(r *recent.Rule) string {
	switch {
	case r.Warned:
		return "warned"
	case r.Audited:
		return "audited"
	}
	return string(r.Outcome)
}

// explain returns what the rules did, and how to learn more.
func (p *printer) explain(i served.Item) string {
	d := i.Decision
	var b strings.Builder
	for _, r := range d.Rules {
		fmt.Fprintf(&b, "    %s %s: %s", printable.Line(r.Policy.String()), printable.Line(r.Rule), printable.Line(did(&r)))
		if r.Ignored {
			b.WriteString(" (ignored)")
		}
		spoke := slices.DeleteFunc(slices.Clone(r.Validations), func(place string) bool { return slices.Contains(r.FailedAt, place) })
		if len(spoke) > 0 {
			b.WriteString(" by " + printable.Line(strings.Join(spoke, ", ")))
		}
		if len(r.FailedAt) > 0 && !slices.Equal(r.FailedAt, []string{r.Rule}) {
			b.WriteString("; failed at " + printable.Line(strings.Join(r.FailedAt, ", ")))
		}
		if len(r.Exemptions) > 0 {
			b.WriteString("; exemption: " + printable.Line(strings.Join(r.Exemptions, ", ")))
		}
		b.WriteString("\n")
	}
	if d.Omitted > 0 {
		fmt.Fprintf(&b, "    and %s\n", cli.Count(d.Omitted, "more rule", "more rules"))
	}
	if d.Candidate != nil {
		if line := served.ExemptLine(d); line != "" {
			fmt.Fprintf(&b, "    %s\n", cli.Paint(p.palette.Faint, "exempt it: "+line))
		}
		return b.String()
	}
	took := time.Duration(d.TookSeconds * float64(time.Second)).Round(time.Microsecond)
	more := fmt.Sprintf("took %s, uid %s, replica %s", took, printable.Line(d.UID), printable.Line(i.Replica))
	if d.Code != 0 {
		more = fmt.Sprintf("code %d, ", d.Code) + more
	}
	what, command := "with messages and values", served.ExplainLine(d)
	if d.Failed || d.Verdict == recent.Errored {
		what = "the error is in the log of this replica, with this uid; to see whether it fails again"
	}
	if strings.HasSuffix(command, served.AnyGroup) {
		what += " (the groups are in the log of the server)"
	}
	return b.String() + "    " + cli.Paint(p.palette.Faint, more) + "\n    " + cli.Paint(p.palette.Faint, what+": "+command) + "\n"
}

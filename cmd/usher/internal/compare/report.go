package compare

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/cmd/usher/internal/format"
	"github.com/usher-dev/usher/internal/impact"
	"github.com/usher-dev/usher/internal/impact/auditlog"
	"github.com/usher-dev/usher/internal/impact/diff"
	"github.com/usher-dev/usher/internal/printable"
)

// An impactReport is what usher impact prints.
type impactReport struct {
	impact.Summary

	// Policies are those that differ: they changed, came or are gone.
	Policies []usher.PolicyRef `json:"policies"`
	// Skipped are lines of audit logs that are no requests to compare.
	Skipped []skippedLines `json:"skipped,omitempty"`
	// Unread are kinds whose objects could not be read.
	Unread []unreadKind `json:"unread,omitempty"`
	// Missing are objects that --facts does not have, because of which something is not known.
	Missing []string `json:"missing,omitempty"`
	// lacking is how many requests these are.
	lacking int
	// Searched are the policies that were tried on generated requests.
	Searched []searched `json:"searched,omitempty"`
}

// A skippedLines counts lines of audit logs that are left out for one reason.
type skippedLines struct {
	Reason string `json:"reason"`
	Lines  int    `json:"lines"`
}

func (c *comparing) report() *impactReport {
	r := &impactReport{Summary: c.tally.Summary(), Policies: c.policies(), Unread: c.unread, Missing: slices.Sorted(maps.Keys(c.missing)), lacking: c.lacking}
	skipped := c.log.Skipped()
	if c.workers[0].Authorizes() {
		// They were compared as questions to authorizers.
		delete(skipped, auditlog.NotAdmitted)
	}
	for _, why := range slices.Sorted(maps.Keys(skipped)) {
		r.Skipped = append(r.Skipped, skippedLines{why, skipped[why]})
	}
	if r.Policies == nil {
		r.Policies = []usher.PolicyRef{}
	}
	return r
}

// has reports whether there is a difference of a kind. What cannot be read is not known.
func (r *impactReport) has(kind string) bool {
	return r.Requests[diff.Kind(kind)] > 0 || diff.Kind(kind) == diff.Unknown && len(r.Unread) > 0 ||
		slices.ContainsFunc(r.Searched, func(s searched) bool { return string(s.Kind) == kind })
}

// showsNothing reports whether of no request that a policy that differs is for it is known what would happen, and
// none was searched.
func (r *impactReport) showsNothing() bool {
	for kind, requests := range r.Requests {
		if kind != diff.Unknown && requests > 0 {
			return false
		}
	}
	return r.Requests[diff.Unknown] >= r.Compared && len(r.Searched) == 0
}

func (f *Flags) print(s cli.Streams, r *impactReport) error {
	if f.Output.Value == "markdown" {
		_, err := fmt.Fprint(s.Out, r.markdown())
		return err
	}
	return f.Output.Report(s.Out, r, func() error {
		_, err := fmt.Fprint(s.Out, r.text(f.Color.Palette(s.Out)))
		return err
	})
}

// titles say what the kinds of differences mean.
var titles = map[diff.Kind]string{
	diff.Failing: "a rule would fail that did not", diff.Denied: "newly denied", diff.PodsDenied: "the pods of workloads newly denied", diff.Unknown: "not known",
	diff.Changed: "the object would come out otherwise", diff.Warned: "newly warned of", diff.Audited: "newly audited", diff.Reason: "denied before, and for one more reason now",
	diff.Allowed: "newly allowed", diff.NoLongerWarned: "no longer warned of", diff.NoLongerAudited: "no longer audited",
}

func colour(p cli.Palette, kind diff.Kind) string {
	switch kind {
	case diff.Failing, diff.Denied, diff.PodsDenied:
		return p.Red
	case diff.Unknown, diff.Changed, diff.Warned, diff.Audited, diff.Reason:
		return p.Yellow
	case diff.Allowed, diff.NoLongerWarned, diff.NoLongerAudited:
	}
	return p.Green
}

func (r *impactReport) text(p cli.Palette) string {
	var b strings.Builder
	for _, kind := range diff.Kinds() {
		if r.Requests[kind] == 0 {
			continue
		}
		fmt.Fprintf(&b, "%s: %s\n", cli.Paint(colour(p, kind), titles[kind]), cli.Count(r.Requests[kind], "request", "requests"))
		r.table(&b, kind)
		b.WriteByte('\n')
	}
	b.WriteString(r.headline(printable.Line))
	b.WriteString(r.last())
	return b.String()
}

// table writes the rows of a kind, each with its example below it: messages are too long for a column.
func (r *impactReport) table(b *strings.Builder, kind diff.Kind) {
	rows := slices.DeleteFunc(slices.Clone(r.Rows), func(row impact.Row) bool { return row.Kind != kind })
	digits, name := 0, 0
	for i := range rows {
		digits = max(digits, len(strconv.Itoa(rows[i].Requests)))
		name = max(name, utf8.RuneCountInString(printable.Line(policyName(rows[i].Policy))))
	}
	for i := range rows {
		row := &rows[i]
		fmt.Fprintf(b, "  %-*d  %-*s  %s\n", digits, row.Requests, name, printable.Line(policyName(row.Policy)), printable.Line(where(row)))
		fmt.Fprintf(b, "%*s%s  %s\n", digits+6, "", printable.Line(row.Example.Message), printable.Line(row.Example.From))
	}
}

// policyName names a policy, or says that it is several.
func policyName(p usher.PolicyRef) string {
	if p == (usher.PolicyRef{}) {
		return "several policies"
	}
	return p.String()
}

// where says what a row is about, besides its policy, and names its first objects.
func where(r *impact.Row) string {
	parts := []string{}
	for _, part := range []struct{ of, is string }{{"", r.Resource}, {"in ", r.Namespace}, {"by ", r.User}, {"of ", r.Owner}} {
		if part.is != "" {
			parts = append(parts, part.of+part.is)
		}
	}
	text := strings.Join(parts, " ")
	if len(r.Names) > 0 {
		text += ": " + strings.Join(r.Names, ", ")
	}
	if r.MoreNames {
		text += " and others"
	}
	return text
}

// last is the last line, and what is to be said before it.
func (r *impactReport) last() string {
	var b strings.Builder
	for _, left := range r.Skipped {
		fmt.Fprintf(&b, "left out: %s: %s\n", cli.Count(left.Lines, "line", "lines"), left.Reason)
	}
	for _, kind := range r.Unread {
		fmt.Fprintf(&b, "not read: %s: %s\n", printable.Line(kind.Resource), printable.Line(kind.Why))
	}
	if r.More > 0 {
		fmt.Fprintf(&b, "%s in no row: there are too many\n", cli.Count(r.More, "difference is", "differences are"))
	}
	for i := range r.Searched {
		b.WriteString(r.Searched[i].text())
	}
	switch {
	case len(r.Policies) == 0:
		fmt.Fprintf(&b, "No policy differs.\n")
	case r.Seen == 0 && len(r.Searched) > 0:
	case r.Compared == 0:
		fmt.Fprintf(&b, "%s, but no policy that differs is for any of them: that shows nothing.\n", cli.Count(r.Seen, "request", "requests"))
	default:
		if len(r.Rows) == 0 && !slices.ContainsFunc(r.Searched, func(s searched) bool { return s.Kind != "" }) {
			b.WriteString("No request is decided otherwise: ")
		}
		nothing := ""
		if r.showsNothing() {
			nothing = ", but of none of these it is known what would happen: that shows nothing."
		}
		fmt.Fprintf(&b, "%s, of which %s for the %s%s\n", cli.Count(r.Seen, "request", "requests"), cli.Count(r.Compared, "is", "are"), cli.Count(len(r.Policies), "policy that differs", "policies that differ"), nothing)
	}
	return b.String()
}

// headline says what the kinds of the differences do not tell: how to know what is not known, and that nothing is denied.
func (r *impactReport) headline(quoted func(string) string) string {
	var b strings.Builder
	if len(r.Missing) > 0 {
		do := "give them with --facts"
		if strings.HasPrefix(r.Missing[0], "v1 Namespace ") {
			do = quoted("kubectl get namespaces -o yaml > namespaces.yaml") + " writes Namespaces with their labels, for --facts namespaces.yaml"
		}
		fmt.Fprintf(&b, "What happens to %s is not known, since --facts does not have %s: %s\n", cli.Count(r.lacking, "request", "requests"), quoted(cli.Some(r.Missing)), do)
	}
	if audited := r.Requests[diff.Audited]; audited > 0 && r.Requests[diff.Denied]+r.Requests[diff.PodsDenied]+r.Requests[diff.Failing] == 0 {
		fmt.Fprintf(&b, "0 requests are newly denied; if what is audited was denied, %d would be\n", audited)
	}
	return b.String()
}

// text says what was found, with its case.
func (s *searched) text() string {
	name := printable.Line(policyName(s.Policy))
	tried := cli.Count(s.Requests, "generated request", "generated requests")
	switch {
	case s.Requests == 0:
		return fmt.Sprintf("searched: %s: no request could be generated\n", name)
	case s.Kind == "":
		return fmt.Sprintf("searched: %s: none of %s differs, which is no proof\n", name, tried)
	}
	text := fmt.Sprintf("found by search: %s: %s: %s\n", name, titles[s.Kind], printable.Line(s.Message))
	if s.Case == nil {
		return text
	}
	written, err := printable.YAML(s.Case)
	if err != nil {
		return text
	}
	return text + "--- # A case for usher test. To keep it, replace the copies under policies by policyFiles: with the path of your policies from it.\n" + string(written) + "---\n"
}

func (r *impactReport) markdown() string {
	var b strings.Builder
	b.WriteString("### Impact of the change of policies\n\n")
	for line := range strings.Lines(r.headline(format.Code)) {
		fmt.Fprintf(&b, "%s\n", line)
	}
	if len(r.Rows) > 0 {
		b.WriteString("| | Requests | Policy | Where | Example |\n|---|---:|---|---|---|\n")
	}
	for i := range r.Rows {
		if b.Len() > format.MaxMarkdown {
			fmt.Fprintf(&b, "\n… and %d more.\n", len(r.Rows)-i)
			break
		}
		row := &r.Rows[i]
		fmt.Fprintf(&b, "| %s | %d | %s | %s | %s |\n", titles[row.Kind], row.Requests, format.Code(policyName(row.Policy)), format.Code(where(row)), format.Code(row.Example.From+": "+row.Example.Message))
	}
	b.WriteString("\n" + fenced(r.last()))
	return b.String()
}

// fenced is text as Markdown that shows it as it is.
func fenced(text string) string {
	fence := "```"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	return fence + "text\n" + text + fence + "\n"
}

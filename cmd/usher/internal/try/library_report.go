package try

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/cmd/usher/internal/format"
	"github.com/usher-dev/usher/internal/audit/result"
	"github.com/usher-dev/usher/internal/podtemplate"
	"github.com/usher-dev/usher/internal/printable"
	"github.com/usher-dev/usher/internal/rule"
)

// addTried adds an object, and counts it once for each policy.
func (r *libraryReport) addTried(o *triedObject) {
	for i := range o.Says {
		o.Says[i].OfPods = r.onlyPods(o.Says[i].Policy, o.Name)
		o.Says[i].Pack = r.packOf(o.Says[i].Policy)
	}
	slices.SortStableFunc(o.Says, func(a, b said) int { return format.CompareSeverities(a.Severity, b.Severity) })
	r.Objects = append(r.Objects, *o)
	says := func(policy string, ofPods bool) int {
		return one(slices.ContainsFunc(o.Says, func(s said) bool { return s.OfPods == ofPods && (policy == "" || s.Policy == policy) }))
	}
	r.Refused += says("", false)
	r.RefusedPods += says("", true)
	r.Changed += one(len(o.Changes) > 0)
	r.ChangedPods += one(len(o.ChangesPods) > 0)
	for policy := range r.order {
		r.count(triedPolicy{
			policy, r.packOf(policy), o.severityOf(policy), o.Name.Namespace, says(policy, false), says(policy, true), one(slices.Contains(o.Changes, policy)), one(slices.Contains(o.ChangesPods, policy)),
		})
	}
}

// packOf returns the pack of a policy.
func (r *libraryReport) packOf(policy string) string {
	if i, ok := r.order[policy]; ok {
		return r.chosen[i].Pack
	}
	return ""
}

// severityOf returns the worst severity of what a policy says about the object; what is said is sorted by it.
func (o *triedObject) severityOf(policy string) usher.Severity {
	if i := slices.IndexFunc(o.Says, func(s said) bool { return s.Policy == policy }); i >= 0 {
		return o.Says[i].Severity
	}
	return ""
}

// one is 1 for what is true.
func one(is bool) int {
	if is {
		return 1
	}
	return 0
}

// onlyPods reports whether a policy is for the pods of a workload, and not for the workload: what it
// says about that is a warning.
func (r *libraryReport) onlyPods(policy string, o result.Identity) bool {
	kind := schema.FromAPIVersionAndKind(o.APIVersion, o.Kind)
	workload, ok := podtemplate.Of(kind.GroupKind())
	if !ok {
		return false
	}
	creation := usher.Request{
		Phase: usher.Validate, Operation: usher.Create, Kind: kind, Resource: kind.GroupVersion().WithResource(workload.Resource),
		Namespace: o.Namespace, Name: o.Name,
	}
	warns := false
	for i := range r.rules {
		of := &r.rules[i]
		switch {
		case of.Policy.Name != policy:
		case of.Pod != nil && of.Pod.Warns:
			warns = true
		case slices.ContainsFunc(of.Match.Resources, func(m rule.ResourceMatch) bool { return m.Matches(&creation) }):
			return false
		}
	}
	return warns
}

// unread adds why a kind cannot be read, once for all policies.
func (r *libraryReport) unread(why string) {
	if !slices.Contains(r.Unread, why) {
		r.Unread = append(r.Unread, why)
	}
}

// saysOf returns what one rule says.
func saysOf(of *ruleResult) []said {
	if of.Error != "" {
		return []said{{Policy: of.Policy.Name, Message: of.Error, Failed: true}}
	}
	if of.Outcome == usher.Exempted {
		return nil
	}
	var all []said
	for _, c := range of.Checks {
		if len(c.Actions) > 0 || c.Failed {
			all = append(all, said{Policy: of.Policy.Name, Validation: c.Validation, Severity: c.Severity, Field: c.Field, Message: c.Message, Failed: c.Failed})
		}
	}
	if len(all) == 0 && of.Outcome == usher.Rejected {
		all = append(all, said{Policy: of.Policy.Name, Message: of.Message})
	}
	return all
}

// count adds what a policy says about one object to the table.
func (r *libraryReport) count(row triedPolicy) {
	if row.Refused+row.RefusedPods+row.Changed+row.ChangedPods == 0 {
		return
	}
	i := slices.IndexFunc(r.Policies, func(p triedPolicy) bool { return p.Policy == row.Policy && p.Namespace == row.Namespace })
	if i < 0 {
		r.Policies = append(r.Policies, row)
		return
	}
	if format.CompareSeverities(row.Severity, r.Policies[i].Severity) < 0 {
		r.Policies[i].Severity = row.Severity
	}
	r.Policies[i].Refused += row.Refused
	r.Policies[i].RefusedPods += row.RefusedPods
	r.Policies[i].Changed += row.Changed
	r.Policies[i].ChangedPods += row.ChangedPods
}

// finish sorts the table, policies that say the worst first.
func (r *libraryReport) finish() {
	severities := map[string]usher.Severity{}
	for _, row := range r.Policies {
		if now, known := severities[row.Policy]; !known || format.CompareSeverities(row.Severity, now) < 0 {
			severities[row.Policy] = row.Severity
		}
	}
	worst := func(a, b string) int { return format.CompareSeverities(severities[a], severities[b]) }
	slices.SortFunc(r.Policies, func(a, b triedPolicy) int {
		return cmp.Or(worst(a.Policy, b.Policy), cmp.Compare(r.order[a.Policy], r.order[b.Policy]), strings.Compare(a.Namespace, b.Namespace))
	})
	slices.Sort(r.MissingFacts)
}

func (r *libraryReport) print(w io.Writer, p cli.Palette) error {
	var b strings.Builder
	if !r.summary {
		r.printObjects(&b, p)
	}
	for _, why := range r.Unread {
		fmt.Fprintf(&b, "%s %s\n", cli.Paint(p.Yellow, "not tried:"), printable.Line(why))
	}
	r.printNotJudged(&b, p)
	if err := r.printTable(&b); err != nil {
		return err
	}
	if !r.summary {
		r.printMissing(&b, p)
		r.printParams(&b, p)
		r.printHow(&b, p)
	}
	r.printTotals(&b)
	_, err := io.WriteString(w, b.String())
	return err
}

// printObjects prints what is said of each object. Objects of a cluster of which the same is said, such as the pods
// of a Deployment, are printed once.
func (r *libraryReport) printObjects(b *strings.Builder, p cli.Palette) {
	type group struct {
		first *triedObject
		n     int
	}
	var groups []*group
	known := map[string]*group{}
	for i := range r.Objects {
		o := &r.Objects[i]
		said, err := json.Marshal([]any{o.Name.APIVersion, o.Name.Kind, o.Name.Namespace, o.Says, o.Changes, o.ChangesPods})
		key := string(said)
		if g := known[key]; err == nil && g != nil && o.File == "" {
			g.n++
			continue
		}
		g := &group{o, 1}
		groups, known[key] = append(groups, g), g
	}
	for i, g := range groups {
		if g.first.File == "" && i == maxShown {
			fmt.Fprintf(b, "and %s: -o json has all\n", cli.Count(len(groups)-i, "more group of objects", "more groups of objects"))
			return
		}
		more := ""
		if g.n > 1 {
			more = fmt.Sprintf(" and %d more of which the same is said", g.n-1)
		}
		g.first.print(b, more, p)
	}
}

// maxShown is how many objects of a cluster are shown: the table counts all of them.
const maxShown = 100

// printNotJudged names the policies that have rules which say nothing about objects.
func (r *libraryReport) printNotJudged(b *strings.Builder, p cli.Palette) {
	var names []string
	for _, u := range r.NotJudged {
		if !slices.Contains(names, u.Policy.Name) {
			names = append(names, u.Policy.Name)
			fmt.Fprintf(b, "%s %s: %s\n", cli.Paint(p.Yellow, "not tried:"), u.Policy.Name, u.Reason)
		}
	}
}

func (o *triedObject) print(b *strings.Builder, more string, p cli.Palette) {
	if len(o.Says)+len(o.Changes)+len(o.ChangesPods) == 0 {
		return
	}
	if o.File != "" {
		fmt.Fprintf(b, "%s: ", printable.Line(o.File))
	}
	fmt.Fprintln(b, cli.Paint(p.Bold, printable.Line(o.Name.String()))+more)
	for _, s := range o.Says {
		word, colour := "would refuse", p.Red
		switch {
		case s.Failed:
			word, colour = "fails", p.Yellow
		case s.OfPods:
			word = "would refuse its pods"
		}
		text := s.Message
		if s.Field != "" {
			text = s.Field + ": " + text
		}
		if s.Severity != "" {
			word += " (" + printable.Line(string(s.Severity)) + ")"
		}
		// Names and messages have what others wrote: nothing of it controls the terminal.
		fmt.Fprintf(b, "  %s  %s: %s\n", cli.Paint(colour, word), s.Policy, printable.Line(text))
	}
	if len(o.Changes) > 0 {
		fmt.Fprintf(b, "  %s  %s\n", cli.Paint(p.Cyan, "would change"), strings.Join(o.Changes, ", "))
	}
	if len(o.ChangesPods) > 0 {
		fmt.Fprintf(b, "  %s  %s\n", cli.Paint(p.Cyan, "would change its pods"), strings.Join(o.ChangesPods, ", "))
	}
}

package try

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/internal/printable"
)

// add adds what the policies say about one object.
func (r *libraryReport) add(j *Judgement) {
	o := triedObject{File: j.File, Name: j.Name}
	if !j.Allowed && len(j.Rules) == 0 {
		o.Says = append(o.Says, said{Message: cmp.Or(j.Message, j.Reason), Failed: true})
	}
	for i := range j.Rules {
		rule := &j.Rules[i]
		o.Says = append(o.Says, saysOf(rule)...)
		if rule.Outcome == usher.Changed {
			o.Changes = append(o.Changes, rule.Policy.Name)
		}
	}
	r.addTried(&o)
}

// addTried adds an object, and counts it once for each policy.
func (r *libraryReport) addTried(o *triedObject) {
	r.Objects = append(r.Objects, *o)
	if len(o.Says) > 0 {
		r.Refused++
	}
	if len(o.Changes) > 0 {
		r.Changed++
	}
	for policy := range r.order {
		refused := slices.ContainsFunc(o.Says, func(s said) bool { return s.Policy == policy })
		r.count(policy, o.Name.Namespace, refused, slices.Contains(o.Changes, policy))
	}
}

// unread adds why a kind cannot be read, once for all policies.
func (r *libraryReport) unread(why string) {
	if !slices.Contains(r.Unread, why) {
		r.Unread = append(r.Unread, why)
	}
}

// saysOf returns what one rule says.
func saysOf(rule *ruleResult) []said {
	if rule.Error != "" {
		return []said{{Policy: rule.Policy.Name, Message: rule.Error, Failed: true}}
	}
	var all []said
	for _, c := range rule.Checks {
		if len(c.Actions) > 0 || c.Failed {
			all = append(all, said{rule.Policy.Name, c.Validation, c.Severity, c.Field, c.Message, c.Failed})
		}
	}
	if len(all) == 0 && rule.Outcome == usher.Rejected {
		all = append(all, said{Policy: rule.Policy.Name, Message: rule.Message})
	}
	return all
}

func (r *libraryReport) count(policy, namespace string, refused, changed bool) {
	if !refused && !changed {
		return
	}
	i := slices.IndexFunc(r.Policies, func(p triedPolicy) bool { return p.Policy == policy && p.Namespace == namespace })
	if i < 0 {
		i = len(r.Policies)
		r.Policies = append(r.Policies, triedPolicy{Policy: policy, Namespace: namespace})
	}
	if refused {
		r.Policies[i].Refused++
	}
	if changed {
		r.Policies[i].Changed++
	}
}

// finish sorts the table. Namespaces that are not known are no hint: they have no labels then.
func (r *libraryReport) finish(missing []string) {
	slices.SortFunc(r.Policies, func(a, b triedPolicy) int {
		return cmp.Or(cmp.Compare(r.order[a.Policy], r.order[b.Policy]), strings.Compare(a.Namespace, b.Namespace))
	})
	r.MissingFacts = slices.DeleteFunc(missing, func(name string) bool { return strings.HasPrefix(name, "v1 Namespace ") })
}

func (r *libraryReport) print(w io.Writer, p cli.Palette) error {
	var b strings.Builder
	for i := range r.Objects {
		if r.Objects[i].File == "" && i == maxShown {
			fmt.Fprintf(&b, "and %s: -o json has all\n", cli.Count(len(r.Objects)-i, "more object", "more objects"))
			break
		}
		r.Objects[i].print(&b, p)
	}
	for _, why := range r.Unread {
		fmt.Fprintf(&b, "%s %s\n", cli.Paint(p.Yellow, "not tried:"), printable.Line(why))
	}
	r.printNotJudged(&b, p)
	printMissing(&b, "", r.MissingFacts, p)
	if len(r.Policies) > 0 {
		b.WriteByte('\n')
		table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
		fmt.Fprintln(table, "POLICY\tNAMESPACE\tWOULD REFUSE\tWOULD CHANGE")
		for _, row := range r.Policies {
			fmt.Fprintf(table, "%s\t%s\t%d\t%d\n", row.Policy, cmp.Or(printable.Line(row.Namespace), "-"), row.Refused, row.Changed)
		}
		if err := table.Flush(); err != nil {
			return err
		}
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "%s tried on %s: %d would be refused, %d changed\n",
		cli.Count(r.Tried, "policy", "policies"), cli.Count(r.Read, "object", "objects"), r.Refused, r.Changed)
	_, err := io.WriteString(w, b.String())
	return err
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

func (o *triedObject) print(b *strings.Builder, p cli.Palette) {
	if len(o.Says) == 0 && len(o.Changes) == 0 {
		return
	}
	if o.File != "" {
		fmt.Fprintf(b, "%s: ", printable.Line(o.File))
	}
	fmt.Fprintln(b, cli.Paint(p.Bold, printable.Line(o.Name.String())))
	for _, s := range o.Says {
		word, colour := "would refuse", p.Red
		if s.Failed {
			word, colour = "fails", p.Yellow
		}
		text := s.Message
		if s.Field != "" {
			text = s.Field + ": " + text
		}
		// Names and messages have what others wrote: nothing of it controls the terminal.
		fmt.Fprintf(b, "  %s  %s: %s\n", cli.Paint(colour, word), s.Policy, printable.Line(text))
	}
	if len(o.Changes) > 0 {
		fmt.Fprintf(b, "  %s  %s\n", cli.Paint(p.Cyan, "would change"), strings.Join(o.Changes, ", "))
	}
}

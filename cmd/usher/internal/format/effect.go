package format

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/internal/audit/result"
	"github.com/usher-dev/usher/internal/printable"
)

// An Effect is what policies that are not in force would change. The results of its [Report] are
// those that are new.
type Effect struct {
	// Policies are those whose results may differ.
	Policies []usher.PolicyRef `json:"policies"`
	// Resolved are the results that there would be no more.
	Resolved []Result `json:"resolved"`
	// Where has a row for each namespace and policy with a difference, the most refusals first.
	Where []Where `json:"where"`
}

// A Where is what a policy would change in a namespace. It counts objects: those of which the policy
// would say so, and does not say so now.
type Where struct {
	// Namespace is empty for cluster-scoped objects.
	Namespace string          `json:"namespace,omitempty"`
	Policy    usher.PolicyRef `json:"policy"`
	Refused   int             `json:"refused"`
	Warned    int             `json:"warned"`
	NoResult  int             `json:"noResult"`
	Resolved  int             `json:"resolved"`
}

// Compare returns the effect of results in place of others, and the results that are new.
func Compare(before, after []Result, policies []usher.PolicyRef) (*Effect, []Result) {
	e := &Effect{Policies: policies, Resolved: []Result{}, Where: []Where{}}
	fresh := without(after, before)
	e.Resolved = append(e.Resolved, without(before, after)...)
	rows := map[place]*Where{}
	was, is := statuses(before), statuses(after)
	for at, found := range is {
		row := rowOf(rows, at.place)
		old := was[at]
		switch {
		case found.Fail > 0 && old.Fail == 0:
			row.Refused++
		case found.Error > 0 && old.Error == 0:
			row.NoResult++
		case found.Warn > 0 && old.Warn == 0 && found.Fail == 0:
			row.Warned++
		}
	}
	for at, old := range was {
		if found := is[at]; old.Fail+old.Error+old.Warn > 0 && found.Fail+found.Error+found.Warn == 0 {
			rowOf(rows, at.place).Resolved++
		}
	}
	for _, row := range rows {
		if row.Refused+row.Warned+row.NoResult+row.Resolved > 0 {
			e.Where = append(e.Where, *row)
		}
	}
	slices.SortFunc(e.Where, func(a, b Where) int {
		return cmp.Or(cmp.Compare(b.Refused, a.Refused), cmp.Compare(b.NoResult, a.NoResult), cmp.Compare(b.Warned, a.Warned),
			cmp.Compare(a.Namespace, b.Namespace), comparePolicies(a.Policy, b.Policy))
	})
	return e, fresh
}

// Differs reports whether results of a policy are new or resolved.
func (r *Report) Differs(ref usher.PolicyRef) bool {
	of := func(one Result) bool { return one.Policy == ref }
	return slices.ContainsFunc(r.Results, of) || slices.ContainsFunc(r.Effect.Resolved, of)
}

// A place is a policy in a namespace.
type place struct {
	namespace string
	policy    usher.PolicyRef
}

// A judged is an object and a policy that says something about it.
type judged struct {
	place

	object result.Identity
	file   string
}

func rowOf(rows map[place]*Where, at place) *Where {
	if rows[at] == nil {
		rows[at] = &Where{Namespace: at.namespace, Policy: at.policy}
	}
	return rows[at]
}

// statuses counts the results of each object and policy.
func statuses(results []Result) map[judged]result.Summary {
	all := map[judged]result.Summary{}
	for i := range results {
		r := &results[i]
		at := judged{place{r.Object.Namespace, r.Policy}, r.Object, r.File}
		counted := all[at]
		counted.Add(r.Status, 1)
		all[at] = counted
	}
	return all
}

// without returns the results of all that are not among others.
func without(all, others []Result) []Result {
	known := map[string]bool{}
	for i := range others {
		known[identity(&others[i])] = true
	}
	var rest []Result
	for i := range all {
		if !known[identity(&all[i])] {
			rest = append(rest, all[i])
		}
	}
	return rest
}

// identity is what two results have in common that say the same. The places of the parts of a policy
// are no part of it: a policy with one more validation says the same with the others.
func identity(r *Result) string {
	return fmt.Sprintf("%q %q %q %q %q %q %v", r.Object, r.File, r.Policy, r.Status, r.Field, r.Message, r.Exemption != nil)
}

func (t *text) effect(e *Effect) {
	gone := slices.DeleteFunc(slices.Clone(e.Resolved), func(r Result) bool { return r.Status == result.Skip && r.Exemption == nil })
	if len(gone) > 0 {
		t.WriteString(cli.Paint(t.Palette.Bold, "Resolved:") + "\n\n")
		t.groups(gone)
	}
	if len(e.Where) == 0 {
		return
	}
	table := tabwriter.NewWriter(t, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "REFUSED\tWARNED\tNO RESULT\tRESOLVED\t  NAMESPACE, POLICY")
	for _, row := range e.Where {
		fmt.Fprintf(table, "%d\t%d\t%d\t%d\t  %s, %s\n", row.Refused, row.Warned, row.NoResult, row.Resolved, printable.Line(namespaceOf(row)), policyName(row.Policy))
	}
	// Writing to a strings.Builder cannot fail.
	_ = table.Flush()
	t.WriteByte('\n')
}

func namespaceOf(row Where) string { return cmp.Or(row.Namespace, "(no namespace)") }

func (e *Effect) markdown(b *strings.Builder) {
	if len(e.Where) == 0 {
		b.WriteString("\nNo result would differ.\n")
		return
	}
	b.WriteString("\n| Refused | Warned | No result | Resolved | Namespace | Policy |\n|---|---|---|---|---|---|\n")
	for i, row := range e.Where {
		if b.Len() > MaxMarkdown {
			fmt.Fprintf(b, "\n… and %d more rows.\n", len(e.Where)-i)
			return
		}
		fmt.Fprintf(b, "| %d | %d | %d | %d | %s | %s |\n", row.Refused, row.Warned, row.NoResult, row.Resolved, Code(namespaceOf(row)), Code(policyName(row.Policy)))
	}
}

package try

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/internal/printable"
	"github.com/usher-dev/usher/library"
)

// addMissing adds facts that were taken to be absent, and which of the policies that ran read them. Namespaces that are
// not known are no hint: they have no labels then.
func (r *libraryReport) addMissing(missing, ran []string) {
	for _, name := range missing {
		if strings.HasPrefix(name, "v1 Namespace ") {
			continue
		}
		if !slices.Contains(r.MissingFacts, name) {
			r.MissingFacts = append(r.MissingFacts, name)
		}
		for i := range r.chosen {
			of := &r.chosen[i]
			if slices.Contains(ran, of.Name) && !slices.Contains(r.readers[name], of.Name) && readsObject(of, name) {
				r.readers[name] = append(r.readers[name], of.Name)
			}
		}
	}
}

// printMissing tells which facts were taken to be absent, and by which policies.
func (r *libraryReport) printMissing(b *strings.Builder, p cli.Palette) {
	for _, name := range r.MissingFacts {
		by := ""
		if readers := r.readers[name]; len(readers) > 0 {
			by = strings.Join(readers, ", ") + ": "
		}
		printMissing(b, "", by, "-f or --facts", []string{name}, p)
	}
}

// readsObject reports whether a policy has data of the kind of a missing fact.
func readsObject(of *library.Policy, name string) bool {
	for _, d := range of.Spec.Data {
		apiVersion, kind := "", ""
		switch {
		case d.Object != nil:
			apiVersion, kind = d.Object.APIVersion, d.Object.Kind
		case d.List != nil:
			apiVersion, kind = d.List.APIVersion, d.List.Kind
		}
		if kind != "" && strings.HasPrefix(strings.Replace(name, ".", "/", 1), strings.Replace(apiVersion, ".", "/", 1)+" "+kind+" ") {
			return true
		}
	}
	return false
}

// printParams tells how to set the params that messages of refusals have values of.
func (r *libraryReport) printParams(b *strings.Builder, p cli.Palette) {
	messages := map[string]string{}
	for i := range r.Objects {
		for _, s := range r.Objects[i].Says {
			messages[s.Policy] += " " + s.Message
		}
	}
	having := map[string]int{}
	for i := range r.chosen {
		for name := range r.chosen[i].Params {
			having[name]++
		}
	}
	for i := range r.chosen {
		of := &r.chosen[i]
		values := maps.Clone(of.Params)
		maps.Copy(values, r.settings[i].Params)
		var flags []string
		for _, name := range slices.Sorted(maps.Keys(values)) {
			value, err := json.Marshal(values[name])
			if err != nil || !isTold(messages[of.Name], value) {
				continue
			}
			if having[name] > 1 {
				name = of.Name + "." + name
			}
			flags = append(flags, "--params '"+strings.ReplaceAll(name+"="+string(value), "'", `'\''`)+"'")
		}
		if len(flags) > 0 {
			fmt.Fprintf(b, "%s what %s accepts is set with %s\n", cli.Paint(p.Yellow, "hint:"), of.Name, printable.Line(strings.Join(flags, " ")))
		}
	}
}

// mostNames is how many policies a command names: for more it names their packs.
const mostNames = 3

// printHow tells how to see what would be changed.
func (r *libraryReport) printHow(b *strings.Builder, p cli.Palette) {
	var names, packs []string
	file := ""
	for i := range r.Objects {
		o := &r.Objects[i]
		for _, policy := range slices.Concat(o.Changes, o.ChangesPods) {
			if pack := r.packOf(policy); pack != "" && !slices.Contains(packs, pack) {
				packs = append(packs, pack)
			}
			if !slices.Contains(names, policy) {
				names = append(names, policy)
			}
			file = cmp.Or(file, o.File)
		}
	}
	if file == "" || file == "-" || len(packs) == 0 {
		return
	}
	if len(names) > mostNames {
		names = packs
	}
	fmt.Fprintf(b, "%s to see the changes: usher library install %s | usher decide -p - %s\n", cli.Paint(p.Yellow, "hint:"), strings.Join(names, " "), printable.Line(file))
}

// word is one that a value of a param may have in a message.
var word = regexp.MustCompile(`[^\s"\[\]{},:]*[a-zA-Z0-9][^\s"\[\]{},:]*`)

// isTold reports whether a message has one of the words of a value in JSON.
func isTold(message string, value []byte) bool {
	words := word.FindAllString(message, -1)
	return slices.ContainsFunc(word.FindAllString(string(value), -1), func(w string) bool { return slices.Contains(words, w) })
}

func (r *libraryReport) printTable(b *strings.Builder) error {
	if len(r.Policies) == 0 {
		return nil
	}
	b.WriteByte('\n')
	table := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "SEVERITY\tPACK\tPOLICY\tNAMESPACE\tWOULD REFUSE\tWOULD REFUSE PODS\tWOULD CHANGE\tWOULD CHANGE PODS")
	for _, row := range r.Policies {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%d\t%d\t%d\t%d\n",
			cmp.Or(printable.Line(string(row.Severity)), "-"), cmp.Or(row.Pack, "-"), row.Policy, cmp.Or(printable.Line(row.Namespace), "-"), row.Refused, row.RefusedPods, row.Changed, row.ChangedPods)
	}
	err := table.Flush()
	b.WriteByte('\n')
	return err
}

// printTotals prints how many objects would be refused and changed, and on a line of their own the pods that they make.
func (r *libraryReport) printTotals(b *strings.Builder) {
	read := cli.Count(r.Read, "object", "objects")
	if r.Kinds > 0 {
		read += " of " + cli.Count(r.Kinds, "kind", "kinds")
	}
	fmt.Fprintf(b, "%s tried on %s: %d would be refused, %d changed\n", cli.Count(r.Tried, "policy", "policies"), read, r.Refused, r.Changed)
	var pods []string
	if r.RefusedPods > 0 {
		pods = append(pods, "those of "+cli.Count(r.RefusedPods, "object", "objects")+" would be refused")
	}
	switch {
	case r.ChangedPods > 0 && len(pods) > 0:
		pods = append(pods, strconv.Itoa(r.ChangedPods)+" changed")
	case r.ChangedPods > 0:
		pods = append(pods, "those of "+cli.Count(r.ChangedPods, "object", "objects")+" would be changed")
	}
	if len(pods) > 0 {
		fmt.Fprintf(b, "their pods: %s\n", strings.Join(pods, ", "))
	}
}

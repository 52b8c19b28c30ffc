package library

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/cmd/usher/internal/packs"
	"github.com/usher-dev/usher/internal/printable"
	"github.com/usher-dev/usher/library"
)

func newShow(s cli.Streams) *cobra.Command {
	var flags packs.Flags
	var output cli.OutputFlag
	var manifest bool
	cmd := &cobra.Command{
		Use:   "show PACK|POLICY...",
		Short: "Show what policies of packs are for, and what can be set",
		Long: `Show prints of a pack what each policy is for, the first example of what it refuses, and its
params with their defaults. Of a policy that you name it prints all: the purpose, the params,
pages about it, and its test cases, which are examples of what it says and permits. With
-o yaml it prints the policies themselves, as install does, and with -o json as a List.`,
		Example: `  usher library show networking
  usher library show allowed-registries
  usher library show networking -o yaml`,
		ValidArgsFunction: flags.Complete,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return &cli.UsageError{Command: cmd.CommandPath(), Err: errors.New("name packs or policies: 'usher library list' has their names")}
			}
			chosen, settings, err := flags.Select(args)
			if err != nil {
				return err
			}
			switch {
			case manifest || output.Value == "yaml":
				return printManifests(s.Out, chosen, settings)
			case output.Value == "json":
				return printList(s.Out, &output, chosen, settings)
			}
			for i := range chosen {
				printOne := summarize
				if slices.Contains(args, chosen[i].Name) {
					printOne = show
				}
				if i > 0 {
					fmt.Fprintln(s.Out)
				}
				if err := printOne(s.Out, &chosen[i]); err != nil {
					return err
				}
			}
			return nil
		},
	}
	flags.Register(cmd)
	output.Register(cmd, "text", "json", "yaml")
	cmd.Flags().BoolVar(&manifest, "manifest", false, "the same as -o yaml")
	return cmd
}

// summarize prints one policy of a pack for people.
func summarize(w io.Writer, p *library.Policy) error {
	fmt.Fprintf(w, "%s (%s): %s\n", p.Name, p.Spec.Severity, p.Summary())
	refused, _, err := examplesOf(p)
	if err != nil {
		return err
	}
	if len(refused) > 0 {
		fmt.Fprintf(w, "  warns of  %s\n", refused[0])
	}
	if len(p.Params) == 0 {
		return nil
	}
	fmt.Fprint(w, "  params    ")
	return cli.EncodeJSON(w, p.Params, "")
}

// examplesOf returns the names of the cases of a policy, with what it says of those that it refuses.
func examplesOf(p *library.Policy) (refused, permitted []string, err error) {
	examples, err := p.Examples()
	for _, e := range examples {
		if len(e.Says) > 0 {
			refused = append(refused, e.Name+": "+strings.Join(e.Says, "; "))
		} else {
			permitted = append(permitted, e.Name)
		}
	}
	return refused, permitted, err
}

// show prints one policy for people.
func show(w io.Writer, p *library.Policy) error {
	from := ""
	if p.Origin != p.Pack {
		from = " with " + p.File + " of " + p.Origin
	}
	fmt.Fprintf(w, "%s (pack %s %s%s, severity %s)\n\n%s\n", p.Name, p.Pack, p.Version, from, p.Spec.Severity, wrap(p.Spec.Description, 100))
	if len(p.Params) > 0 {
		params, err := printable.YAML(p.Params)
		if err != nil {
			return fmt.Errorf("print params: %w", err)
		}
		fmt.Fprintf(w, "\nParams:\n%s", indent(string(params)))
	}
	refused, permitted, err := examplesOf(p)
	if err != nil {
		return err
	}
	printLines(w, "Warns of, for example", refused)
	printLines(w, map[bool]string{false: "Permits, for example", true: "Examples"}[p.Mutates()], permitted)
	printLines(w, "See", p.Spec.Links)
	return nil
}

func printLines(w io.Writer, title string, lines []string) {
	if len(lines) > 0 {
		fmt.Fprintf(w, "\n%s:\n%s", title, indent(strings.Join(lines, "\n")+"\n"))
	}
}

func printManifests(w io.Writer, chosen []library.Policy, settings []library.Settings) error {
	for i := range chosen {
		text, err := chosen[i].Manifest(settings[i])
		if err != nil {
			return err
		}
		if i > 0 {
			text = append([]byte("---\n"), text...)
		}
		if _, err := w.Write(text); err != nil {
			return err
		}
	}
	return nil
}

// printList prints the manifests as kubectl prints objects in JSON.
func printList(w io.Writer, output *cli.OutputFlag, chosen []library.Policy, settings []library.Settings) error {
	items := make([]map[string]any, len(chosen))
	for i := range chosen {
		text, err := chosen[i].Manifest(settings[i])
		if err != nil {
			return err
		}
		if err := yaml.Unmarshal(text, &items[i]); err != nil {
			return fmt.Errorf("decode %s: %w", chosen[i].Name, err)
		}
	}
	return output.Encode(w, map[string]any{"apiVersion": "v1", "kind": "List", "items": items})
}

func paramNames(p *library.Policy) []string {
	return slices.AppendSeq([]string{}, slices.Values(slices.Sorted(maps.Keys(p.Params))))
}

func indent(text string) string {
	return "  " + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n  ") + "\n"
}

// wrap breaks text into lines of at most width bytes, if its words permit.
func wrap(text string, width int) string {
	var b strings.Builder
	column := 0
	for word := range strings.FieldsSeq(text) {
		switch {
		case column == 0:
		case column+1+len(word) > width:
			b.WriteByte('\n')
			column = 0
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += len(word)
	}
	return b.String()
}

package library

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/cmd/usher/internal/packs"
	"github.com/usher-dev/usher/internal/printable"
	"github.com/usher-dev/usher/library"
)

func newShow(s cli.Streams) *cobra.Command {
	var flags packs.Flags
	var manifest bool
	cmd := &cobra.Command{
		Use:   "show PACK|POLICY...",
		Short: "Show what policies of packs are for, and what can be set",
		Long: `Show prints the purpose of each policy, its params with their defaults, pages about it,
and its test cases, which are examples of what it says and permits. With --manifest it
prints the policies themselves, as install does.`,
		Example: `  usher library show allowed-registries
  usher library show --manifest networking`,
		ValidArgsFunction: flags.Complete,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return &cli.UsageError{Command: cmd.CommandPath(), Err: errors.New("name packs or policies: 'usher library list' has their names")}
			}
			chosen, settings, err := flags.Select(args)
			if err != nil {
				return err
			}
			if manifest {
				return printManifests(s.Out, chosen, settings)
			}
			for i := range chosen {
				if i > 0 {
					fmt.Fprintln(s.Out)
				}
				if err := show(s.Out, &chosen[i]); err != nil {
					return err
				}
			}
			return nil
		},
	}
	flags.Register(cmd)
	cmd.Flags().BoolVar(&manifest, "manifest", false, "print the manifests of the policies")
	return cmd
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
	examples, err := p.Examples()
	if err != nil {
		return err
	}
	var refused, permitted []string
	for _, e := range examples {
		if len(e.Says) > 0 {
			refused = append(refused, e.Name+": "+strings.Join(e.Says, "; "))
		} else {
			permitted = append(permitted, e.Name)
		}
	}
	printList(w, "Warns of, for example", refused)
	printList(w, map[bool]string{false: "Permits, for example", true: "Examples"}[p.Mutates()], permitted)
	printList(w, "See", p.Spec.Links)
	return nil
}

func printList(w io.Writer, title string, lines []string) {
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

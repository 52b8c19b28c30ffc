package library

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/cmd/usher/internal/packs"
	"github.com/usher-dev/usher/library"
)

type listed struct {
	Packs []listedPack `json:"packs"`
}

type listedPack struct {
	Name        string         `json:"name"`
	Title       string         `json:"title"`
	Description string         `json:"description"`
	Version     string         `json:"version"`
	Kubernetes  string         `json:"kubernetes"`
	Policies    []listedPolicy `json:"policies"`
}

type listedPolicy struct {
	Name        string   `json:"name"`
	Description string   `json:"description"`
	Category    string   `json:"category"`
	Severity    string   `json:"severity"`
	Mutates     bool     `json:"mutates"`
	Links       []string `json:"links"`
	// Params are the names of the params.
	Params []string `json:"params"`
}

func newList(s cli.Streams) *cobra.Command {
	var flags packs.Flags
	var output cli.OutputFlag
	var search string
	cmd := &cobra.Command{
		Use:   "list [PACK|POLICY...]",
		Short: "List the packs, or the policies of some",
		Long: `List prints the packs, with the number of their policies, or the policies of packs that
you name, with the first sentence about each; with --keyword only those that have the words. With -o name it prints only their names, one per
line.`,
		Example: `  usher library list
  usher library list supply-chain networking
  usher library list --keyword resources
  usher library list supply-chain -o name | grep -v image-digests | xargs usher library install
  usher library list -o json`,
		ValidArgsFunction: flags.Complete,
		RunE: func(_ *cobra.Command, args []string) error {
			all, err := flags.Packs()
			if err != nil {
				return err
			}
			chosen, err := library.Select(all, args)
			if err != nil {
				return err
			}
			if search != "" {
				if chosen, err = searched(all, args, chosen, search); err != nil {
					return err
				}
			}
			switch {
			case output.Value == "name":
				return printNames(s, all, chosen)
			case output.Value != "text":
				return output.Encode(s.Out, listing(all, chosen))
			case len(args) > 0 || search != "":
				return printPolicies(s, chosen)
			default:
				return printPacks(s, all)
			}
		},
	}
	flags.Register(cmd)
	cmd.Flags().StringVar(&search, "keyword", "", "words that policies have in their name, category, description or messages, as in 'memory limit'")
	output.Register(cmd, "text", "json", "yaml", "name")
	return cmd
}

// searched returns the policies that have the words, of those that are chosen if packs or policies are named.
func searched(all []library.Pack, named []string, chosen []library.Policy, words string) ([]library.Policy, error) {
	found := library.Search(all, words)
	if len(named) > 0 {
		found = slices.DeleteFunc(found, func(p library.Policy) bool {
			return !slices.ContainsFunc(chosen, func(c library.Policy) bool { return c.Name == p.Name })
		})
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("no policy has %q in its name, category, description or messages: try one word, in the singular", words)
	}
	return found, nil
}

// listing returns the packs with the policies that are chosen, all if there are none.
func listing(all []library.Pack, chosen []library.Policy) listed {
	report := listed{Packs: []listedPack{}}
	isChosen := map[string]bool{}
	for i := range chosen {
		isChosen[chosen[i].Name] = true
	}
	for _, pack := range all {
		p := listedPack{Name: pack.Name, Title: pack.Title, Description: pack.Description, Version: pack.Version, Kubernetes: pack.Kubernetes}
		for i := range pack.Policies {
			policy := &pack.Policies[i]
			if len(chosen) > 0 && !isChosen[policy.Name] {
				continue
			}
			p.Policies = append(p.Policies, listedPolicy{
				policy.Name, policy.Spec.Description, policy.Spec.Category, string(policy.Spec.Severity), policy.Mutates(), policy.Spec.Links, paramNames(policy),
			})
		}
		if len(p.Policies) > 0 {
			report.Packs = append(report.Packs, p)
		}
	}
	return report
}

// printNames prints the names of the policies that are chosen, those of all packs if there are none.
func printNames(s cli.Streams, all []library.Pack, chosen []library.Policy) error {
	var names strings.Builder
	for i := range chosen {
		names.WriteString(chosen[i].Name + "\n")
	}
	if len(chosen) == 0 {
		for i := range all {
			names.WriteString(all[i].Name + "\n")
		}
	}
	_, err := io.WriteString(s.Out, names.String())
	return err
}

func printPacks(s cli.Streams, all []library.Pack) error {
	w := tabwriter.NewWriter(s.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "PACK\tVERSION\tPOLICIES\tFOR")
	total := 0
	for _, pack := range all {
		total += len(pack.Policies)
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\n", pack.Name, pack.Version, len(pack.Policies), pack.Description)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(s.Out, "\n%s in %s: 'usher library list PACK' names them\n", cli.Count(total, "policy", "policies"), cli.Count(len(all), "pack", "packs"))
	return err
}

func printPolicies(s cli.Streams, chosen []library.Policy) error {
	w := tabwriter.NewWriter(s.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "POLICY\tSEVERITY\tDOES\tPURPOSE")
	for i := range chosen {
		p := &chosen[i]
		does := "validates"
		if p.Mutates() {
			does = "changes"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", p.Name, p.Spec.Severity, does, p.Summary())
	}
	return w.Flush()
}

package cli

import (
	"fmt"
	"path"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// A FlagGroup is a group of flags in the help of a command that has many.
type FlagGroup struct {
	Title string
	// Flags are names, and patterns such as audit-*. A flag belongs to the first group that has it.
	Flags []string
}

// otherFlags is the title of the flags that are in no group, such as --help.
const otherFlags = "Other flags"

// GroupFlags has the help of cmd list its flags in groups. Those in none of them come last.
func GroupFlags(cmd *cobra.Command, groups ...FlagGroup) {
	cmd.SetUsageFunc(func(cmd *cobra.Command) error {
		var b strings.Builder
		fmt.Fprintf(&b, "Usage:\n  %s\n\nExamples:\n%s\n", cmd.UseLine(), cmd.Example)
		sets := make([]pflag.FlagSet, len(groups)+1)
		cmd.LocalFlags().VisitAll(func(flag *pflag.Flag) { sets[groupOf(flag.Name, groups)].AddFlag(flag) })
		for i := range sets {
			title := otherFlags
			if i < len(groups) {
				title = groups[i].Title
			}
			if usages := sets[i].FlagUsages(); usages != "" {
				fmt.Fprintf(&b, "\n%s:\n%s", title, usages)
			}
		}
		_, err := fmt.Fprint(cmd.OutOrStderr(), b.String())
		return err
	})
}

// groupOf returns the index of the group that a flag belongs to, or how many there are.
func groupOf(name string, groups []FlagGroup) int {
	for i := range groups {
		for _, pattern := range groups[i].Flags {
			if matched, err := path.Match(pattern, name); err == nil && matched {
				return i
			}
		}
	}
	return len(groups)
}

package authorize

import (
	"github.com/spf13/cobra"

	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/cmd/usher/internal/compare"
	"github.com/usher-dev/usher/internal/impact/diff"
)

func newAuthzDiff(s cli.Streams) *cobra.Command {
	f := compare.Flags{
		Authorization: true, By: []string{"namespace", "resource", "user"},
		FailOn: []string{string(diff.Failing), string(diff.Denied), string(diff.Allowed)},
	}
	cmd := &cobra.Command{
		Use:   "diff OLD NEW",
		Short: "Show what an edit of policies changes",
		Long: `Diff compares the authorization policies in two files or folders, as 'usher impact' does, on
generated requests: those that the rules of policies that differ speak of, for the users that
they speak of and for somebody else; where a rule has a *, one text in its place is tried.
To compare them on requests that users sent, give 'usher impact' an audit log.

A request counts as newly denied if Usher denies it, or no longer allows it, and as newly
allowed if Usher allows it, or no longer denies it, whatever RBAC says.

The exit status is 0 if all answers are the same, and 1 if not.`,
		Example: `  usher authz diff old-policies/ policies/
  git worktree add --detach ../old HEAD && usher authz diff ../old/policies policies`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, paths []string) error {
			return f.Run(cmd, s, compare.Sides{Old: paths[:1], New: paths[1:]})
		},
	}
	f.Output.Register(cmd, "text", "json", "yaml")
	f.Color.Register(cmd)
	return cmd
}

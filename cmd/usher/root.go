package main

import (
	"github.com/spf13/cobra"

	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/cmd/usher/internal/authorize"
	"github.com/usher-dev/usher/cmd/usher/internal/compare"
	"github.com/usher-dev/usher/cmd/usher/internal/console"
	"github.com/usher-dev/usher/cmd/usher/internal/enforce"
	"github.com/usher-dev/usher/cmd/usher/internal/library"
	"github.com/usher-dev/usher/cmd/usher/internal/live"
	"github.com/usher-dev/usher/cmd/usher/internal/observe"
	"github.com/usher-dev/usher/cmd/usher/internal/promote"
	"github.com/usher-dev/usher/cmd/usher/internal/try"
	"github.com/usher-dev/usher/cmd/usher/internal/write"
)

// A family is a group of commands in the help.
type family struct {
	id, title string
	commands  []*cobra.Command
}

func families(s cli.Streams) []family {
	return []family{
		{"write", "Write policies:", []*cobra.Command{write.Check(s), write.LSP(s), write.Render(s), write.Import(s), try.Exempt(s), library.Command(s, try.Library(s, observe.Cluster)), library.Init(s)}},
		{"try", "Try policies:", []*cobra.Command{try.Decide(s), try.Explain(s), try.Simulate(s), try.Test(s), compare.Impact(s), console.Command(s, &live.Flags{})}},
		{"enforce", "Enforce policies:", []*cobra.Command{enforce.Serve(s), promote.Command(s), enforce.Admission(s), enforce.Uninstall(s), enforce.Certs(s)}},
		{"observe", "Observe webhooks and clusters:", []*cobra.Command{observe.Status(s), observe.Watch(s), observe.Audit(s), observe.Bench(s)}},
		{"authorize", "Authorize requests:", []*cobra.Command{authorize.Command(s)}},
	}
}

func newRoot(s cli.Streams) *cobra.Command {
	root := &cobra.Command{
		Use:   "usher",
		Short: "Decide what may enter a Kubernetes cluster",
		Long: `Usher is a policy engine for Kubernetes. Policies say what to change about objects as
they are written, which writes to refuse, and who may do what.

On SIGINT or SIGTERM commands end within a second, with exit status 130 or 143, and serve as its
help says.`,
		Example: `  # what is wrong with these policies?
  usher check policies/

  # what would they do with this object, and why?
  usher decide -p policies/ pod.yaml

  # and exactly why does each rule do what it does?
  usher explain -p policies/ pod.yaml

  # what would the API server do, with all webhooks and policies of a cluster?
  usher simulate pod.yaml --cluster-files cluster/

  # do they do what their test cases say?
  usher test cases/

  # enforce them
  usher serve -p policies/`,
		Version: cli.BuildVersion().String(),
		Args:    cli.NoSuchCommand,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cmd.Help()
		},
	}
	for _, f := range families(s) {
		root.AddGroup(&cobra.Group{ID: f.id, Title: f.title})
		for _, command := range f.commands {
			command.GroupID = f.id
			root.AddCommand(command)
		}
	}
	root.Flags().Bool("version", false, "print the version")
	root.SetVersionTemplate("{{.Name}} {{.Version}}\n")
	root.AddCommand(newVersion(s), newCompletion(s))
	return root
}

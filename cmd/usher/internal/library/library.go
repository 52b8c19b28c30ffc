// Package library has the commands about packs of policies that are ready to install.
package library

import (
	"github.com/spf13/cobra"

	"github.com/usher-dev/usher/cmd/internal/cli"
)

// Command returns usher library with its subcommands, of which try is given.
func Command(s cli.Streams, try *cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use:        "library",
		SuggestFor: []string{"install", "packs"},
		Short:      "List, try and install policies that come with Usher",
		Long: `Library has packs of policies that are ready to install, each with test cases. They warn
until you have them deny, and what differs from one organisation to the next, such as
registries and domains, are params.

Packs of your own are folders with the same layout: a pack.yaml, one policy a file, and
test cases in cases. Name them with --packs. Registries keep them: push and pull.`,
		Example: `  # what is there?
  usher library list

  # what does it do, and what can be set?
  usher library show allowed-registries

  # what would it say about what we have?
  usher library try supply-chain -f manifests/ --params 'registries=[registry.acme.example]'

  # warn of it from now on
  usher library install supply-chain --params 'registries=[registry.acme.example]' | kubectl apply --server-side -f -`,
		Args: cli.NoSuchCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newList(s), newShow(s), try, newInstall(s), newPush(s), newPull(s))
	return cmd
}

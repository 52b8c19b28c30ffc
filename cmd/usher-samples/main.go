// Command usher-samples serves the sample webhooks of Kubernetes' tutorials and end-to-end
// tests, in place of agnhost: same flags, same paths.
package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/usher-dev/usher/cmd/internal/cli"
)

func main() { os.Exit(cli.Main(newRoot)) }

func newRoot(s cli.Streams) *cobra.Command {
	root := &cobra.Command{
		Use:   "usher-samples",
		Short: "Serve the sample webhooks of Kubernetes",
		Long: `Usher-samples serves the sample webhooks of Kubernetes' tutorials and end-to-end tests, as
agnhost does. They are written with Usher's packages for Go programs, and show how to write
webhooks of your own.`,
		Example: `  usher-samples webhook --port 8444
  usher-samples crd-conversion-webhook --port 8444`,
		Args: cli.NoSuchCommand,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cmd.Help()
		},
	}
	root.AddCommand(newWebhook(s), newConversionWebhook(s))
	return root
}

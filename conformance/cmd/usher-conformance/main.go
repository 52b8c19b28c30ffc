// Command usher-conformance runs Kubernetes' own end-to-end specs of admission and
// conversion webhooks against usher, and against a server that must not pass them.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/usher-dev/usher/conformance/internal/kubectl"
	"github.com/usher-dev/usher/conformance/internal/server"
	"github.com/usher-dev/usher/conformance/internal/suite"
)

func main() {
	command := root()
	// Specs call a kubectl.
	if filepath.Base(os.Args[0]) == kubectl.Name {
		command = kubectl.Command()
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := command.ExecuteContext(ctx)
	stop()
	switch {
	case errors.Is(err, errNotMet):
		os.Exit(1)
	case err != nil:
		fmt.Fprintln(os.Stderr, "usher-conformance:", err)
		os.Exit(2)
	}
}

func root() *cobra.Command {
	var o options
	command := &cobra.Command{
		Use:   "usher-conformance",
		Short: "run Kubernetes' own specs of webhooks against usher",
		Long: `usher-conformance runs the end-to-end specs AdmissionWebhook and
CustomResourceConversionWebhook of Kubernetes, as they were released, on sandboxes without
nodes: wherever a spec deploys Kubernetes' sample server, the server that is tested runs.

The exit code is 0 if usher passes all of them and a server that allows everything fails
those that depend on a server's answers; 1 if not; 2 if that could not be found out.`,
		Example: `  usher-conformance
  usher-conformance --focus 'mutate pod'
  usher-conformance --server reference`,
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(command *cobra.Command, _ []string) error {
			return run(command.Context(), o, command.OutOrStdout())
		},
	}
	o.bind(command)
	command.AddCommand(suiteCommand(), serveCommand())
	return command
}

// suiteCommand runs the suite in this process, for one that runs trials.
func suiteCommand() *cobra.Command {
	var o suite.Options
	command := &cobra.Command{
		Use:    "suite TEXT...",
		Short:  "run specs on a cluster, with results to file 3",
		Hidden: true,
		RunE: func(_ *cobra.Command, specs []string) error {
			o.Specs, o.Results = specs, os.NewFile(3, "results")
			return suite.Run(o)
		},
	}
	command.Flags().StringVar(&o.Kubeconfig, "kubeconfig", "", "cluster")
	command.Flags().StringVar(&o.Kubectl, "kubectl", "", "path of kubectl")
	command.Flags().StringVar(&o.Logs, "logs", "", "folder for one file a spec")
	return command
}

// serveCommand is a server to compare with.
func serveCommand() *cobra.Command {
	command := &cobra.Command{Use: "serve", Short: "be a server to compare with", Hidden: true}
	command.AddCommand(server.Reference(), server.AllowAll())
	return command
}

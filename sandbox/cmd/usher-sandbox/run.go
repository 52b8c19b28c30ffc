package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"

	"github.com/spf13/cobra"
)

func runCommand() *cobra.Command {
	o := &options{}
	command := &cobra.Command{
		Use:   "run [flags] -- COMMAND [ARG...]",
		Short: "run a command with a sandbox of its own, named by KUBECONFIG",
		Example: `  usher-sandbox run -- kubectl get namespaces
  usher-sandbox run -- go test ./...`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			config, err := o.complete()
			if err != nil {
				return err
			}
			running, err := start(command.Context(), config)
			if err != nil {
				return err
			}
			defer running.Stop()
			if err := running.WaitReady(command.Context()); err != nil {
				return err
			}
			child := exec.CommandContext(command.Context(), args[0], args[1:]...)
			child.Stdin, child.Stdout, child.Stderr = os.Stdin, os.Stdout, os.Stderr
			child.Env = append(os.Environ(), "KUBECONFIG="+running.State.Kubeconfig)
			if err := child.Run(); err != nil {
				return fmt.Errorf("run %s: %w", args[0], err)
			}
			return nil
		},
	}
	o.bind(command)
	return command
}

// exitCode returns the exit code of the command that run has started, and 1 for other errors.
func exitCode(err error) int {
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() > 0 {
		return exit.ExitCode()
	}
	return 1
}

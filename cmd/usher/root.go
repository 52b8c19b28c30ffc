package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// The exit statuses, which are part of the interface.
const (
	exitOK       = 0
	exitNegative = 1 // denied, problems found, a case failed
	exitUnusable = 2 // the command line or what it names cannot be used
)

// errNegative ends a command whose answer is no, and which has said so already.
var errNegative = errors.New("negative answer")

// streams are what a command reads and writes.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

// execute runs the command line and returns the exit status.
func execute(ctx context.Context, s streams, args []string) int {
	root := newRoot(s)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, errNegative):
		return exitNegative
	}
	fmt.Fprintln(s.err, "usher:", err)
	var usage *usageError
	if errors.As(err, &usage) {
		fmt.Fprintf(s.err, "Run '%s --help' for what it takes.\n", usage.command)
	}
	return exitUnusable
}

// A usageError is a command line that makes no sense to the command.
type usageError struct {
	command string
	err     error
}

func (e *usageError) Error() string { return e.err.Error() }

func (e *usageError) Unwrap() error { return e.err }

func newRoot(s streams) *cobra.Command {
	root := &cobra.Command{
		Use:   "usher",
		Short: "Decide what may enter a Kubernetes cluster",
		Long: `Usher is a policy engine for Kubernetes. Policies say what to change about objects as
they are written, which writes to refuse, and who may do what.`,
		Example: `  # what is wrong with these policies?
  usher check policies/

  # what would they do with this object, and why?
  usher decide -p policies/ -f pod.yaml

  # and exactly why does each rule do what it does?
  usher explain -p policies/ -f pod.yaml

  # what would the API server do, with all webhooks and policies of a cluster?
  usher simulate -f pod.yaml --cluster cluster/

  # do they do what their test cases say?
  usher test cases/

  # enforce them
  usher serve --policies policies/`,
		Args:          noSuchCommand,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cmd.Help()
		},
	}
	root.SetIn(s.in)
	root.SetOut(s.out)
	root.SetErr(s.err)
	root.SuggestionsMinimumDistance = 2
	root.CompletionOptions.DisableDefaultCmd = true
	root.AddCommand(
		newServe(s),
		newDecide(s),
		newExplain(s),
		newSimulate(s),
		newCheck(s),
		newRender(s),
		newTest(s),
		newAuthz(s),
		newAdmission(s),
		newBench(s),
		newUninstall(s),
		newCerts(s),
		newWebhook(s),
		newConversionWebhook(s),
		newVersion(s),
		newCompletion(s),
	)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return &usageError{command: cmd.CommandPath(), err: err}
	})
	explainArguments(root)
	return root
}

// noSuchCommand refuses what is no command, and names those that may have been meant.
func noSuchCommand(root *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if near := root.SuggestionsFor(args[0]); len(near) > 0 {
		return fmt.Errorf("unknown command %q: did you mean %s?", args[0], strings.Join(near, " or "))
	}
	return fmt.Errorf("unknown command %q", args[0])
}

// explainArguments makes every command point to its help when its arguments do not fit.
func explainArguments(cmd *cobra.Command) {
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if err := check(cmd, args); err != nil {
				return &usageError{command: cmd.CommandPath(), err: err}
			}
			return nil
		}
	}
	for _, child := range cmd.Commands() {
		explainArguments(child)
	}
}

// somePaths is the argument check of commands that take files and folders.
func somePaths(what string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) == 0 {
			return fmt.Errorf("no %s given: name files or folders", what)
		}
		return nil
	}
}

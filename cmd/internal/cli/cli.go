// Package cli is what the commands of all binaries have in common: streams, exit statuses,
// output, colours, logs and flags that are accepted and ignored.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// The exit statuses, which are part of the interface.
const (
	ExitOK       = 0
	ExitNegative = 1 // denied, problems found, a case failed
	ExitUnusable = 2 // the command line or what it names cannot be used
	ExitDisputed = 3 // the answer is not that of the cluster
)

// ErrNegative ends a command whose answer is no, and which has said so already.
var ErrNegative = errors.New("negative answer")

// ErrDisputed ends a command whose answer is not that of the cluster, and which has said so already.
var ErrDisputed = errors.New("the cluster answers differently")

// Streams are what a command reads and writes.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// Execute runs a command line, whose command newRoot returns, and returns the exit status. What the
// command prints passes through a [Screen].
func Execute(ctx context.Context, newRoot func(Streams) *cobra.Command, s Streams, args []string) int {
	s.Out, s.Err = NewScreen(s.Out), NewScreen(s.Err)
	return execute(ctx, newRoot, s, args, func(*cobra.Command) {})
}

// execute is [Execute] on screens. It calls started before the command runs.
func execute(ctx context.Context, newRoot func(Streams) *cobra.Command, s Streams, args []string, started func(*cobra.Command)) int {
	for _, w := range []io.Writer{s.Out, s.Err} {
		if screen, ok := w.(*Screen); ok {
			defer screen.Flush()
		}
	}
	root := newRoot(s)
	root.SetIn(s.In)
	// Cobra prints warnings where the output goes, or on the standard error if nothing says where.
	if FileOf(s.Out) != os.Stdout {
		root.SetOut(s.Out)
	}
	root.SetErr(s.Err)
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SuggestionsMinimumDistance = 2
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		// The flags of a command that does not exist are not what is wrong.
		if depth := len(strings.Fields(cmd.CommandPath())) - 1; cmd.HasSubCommands() && len(args) > depth && !strings.HasPrefix(args[depth], "-") {
			err = NoSuchCommand(cmd, args[depth:])
		}
		return &UsageError{Command: cmd.CommandPath(), Err: suggestFlags(cmd, err)}
	})
	explainArguments(root)
	root.PersistentPreRun = func(cmd *cobra.Command, _ []string) {
		started(cmd)
	}
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	if told := signalOf(ctx, cmd); told != nil {
		printError(cmd, s, args, told)
		return told.status
	}
	switch {
	case err == nil:
		return ExitOK
	case errors.Is(err, ErrNegative):
		return ExitNegative
	case errors.Is(err, ErrDisputed):
		return ExitDisputed
	}
	printError(cmd, s, args, err)
	return ExitUnusable
}

// A UsageError is a command line that makes no sense to the command.
type UsageError struct {
	Command string
	Err     error
}

// Error implements error.
func (e *UsageError) Error() string { return e.Err.Error() }

// Unwrap returns what is wrong with the command line.
func (e *UsageError) Unwrap() error { return e.Err }

// NoSuchCommand refuses what is no command, and names those that may have been meant.
func NoSuchCommand(root *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if near := root.SuggestionsFor(args[0]); len(near) > 0 {
		return fmt.Errorf("unknown command %q: did you mean %s?", args[0], strings.Join(near, " or "))
	}
	return fmt.Errorf("unknown command %q", args[0])
}

// suggestFlags adds to the error for a flag that does not exist those that may have been meant.
func suggestFlags(cmd *cobra.Command, err error) error {
	unknown, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok || len(unknown.GetSpecifiedName()) < 2 {
		return err
	}
	// Cobra finds commands that have similar names.
	flags := &cobra.Command{SuggestionsMinimumDistance: 2}
	visit := func(flag *pflag.Flag) {
		if !flag.Hidden {
			flags.AddCommand(&cobra.Command{Use: flag.Name, Run: func(*cobra.Command, []string) {}})
		}
	}
	cmd.Flags().VisitAll(visit)
	near := flags.SuggestionsFor(unknown.GetSpecifiedName())
	if len(near) == 0 || len(near) > 3 {
		return err
	}
	return fmt.Errorf("%w: did you mean --%s?", err, strings.Join(near, " or --"))
}

// explainArguments makes every command point to its help when its arguments do not fit.
func explainArguments(cmd *cobra.Command) {
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if err := check(cmd, args); err != nil {
				return &UsageError{Command: cmd.CommandPath(), Err: argumentsError(cmd, args, err)}
			}
			return nil
		}
	}
	for _, child := range cmd.Commands() {
		explainArguments(child)
	}
}

// argumentsError says which arguments a command takes, in place of what cobra says of their number: it does not say
// what they are, and takes those of commands without any for commands.
func argumentsError(cmd *cobra.Command, args []string, err error) error {
	text := err.Error()
	if cmd.HasSubCommands() || !strings.HasPrefix(text, "accepts ") && !strings.HasPrefix(text, "unknown command ") {
		return err
	}
	got := "no arguments"
	if len(args) > 0 {
		got = Count(len(args), "argument", "arguments") + ": " + strings.Join(args, " ")
	}
	return fmt.Errorf("expected '%s', got %s", cmd.UseLine(), got)
}

// NoPaths is the error of commands that were given no files and folders. It names the folder that "usher init" makes, if
// there is one.
func NoPaths(cmd *cobra.Command, what string) error {
	do := "name files or folders"
	if folder, err := os.Stat(what); err == nil && folder.IsDir() {
		do += ", such as " + cmd.CommandPath() + " " + what + "/"
	}
	return &UsageError{Command: cmd.CommandPath(), Err: fmt.Errorf("no %s given: %s", what, do)}
}

// ReadsStdinOnce refuses to read the standard input for two purposes. Each of paths is what one of
// them reads.
func ReadsStdinOnce(paths ...[]string) error {
	n := 0
	for _, path := range slices.Concat(paths...) {
		if path == "-" {
			n++
		}
	}
	if n > 1 {
		return errors.New("the standard input can be read once: give - in one place")
	}
	return nil
}

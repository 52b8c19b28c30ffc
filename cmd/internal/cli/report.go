package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"
)

// The codes of errors in JSON, which are part of the interface.
const (
	CodeUsage           = "Usage"           // the command line makes no sense
	CodeNotFound        = "NotFound"        // a file does not exist
	CodeInvalidPolicies = "InvalidPolicies" // policies have errors
	CodeTimeout         = "Timeout"
	CodeCanceled        = "Canceled"
	CodeUnusable        = "Unusable" // anything else
)

// A ProblemsError is an error that consists of several problems.
type ProblemsError struct {
	Code string
	// Problems are encoded as they are; text output has shown them already.
	Problems any
	Err      error
}

// Error implements error.
func (e *ProblemsError) Error() string { return e.Err.Error() }

// Unwrap returns the error itself.
func (e *ProblemsError) Unwrap() error { return e.Err }

// An errorReport is what ends a command whose output is for machines.
type errorReport struct {
	Error struct {
		Code     string `json:"code"`
		Message  string `json:"message"`
		Command  string `json:"command"`
		Problems any    `json:"problems,omitempty"`
	} `json:"error"`
}

// printError tells on s.Err what ended cmd: as text, or as one line of JSON if that is what the
// command line asks for.
func printError(cmd *cobra.Command, s Streams, args []string, err error) {
	usage, isUsage := errors.AsType[*UsageError](err)
	if !ForMachines(cmd) && !asksForJSON(args) {
		fmt.Fprintf(s.Err, "%s: %v\n", cmd.Root().Name(), err)
		if isUsage {
			fmt.Fprintf(s.Err, "Run '%s --help' for usage.\n", usage.Command)
		}
		return
	}
	var report errorReport
	report.Error.Code, report.Error.Message, report.Error.Command = codeOf(err), err.Error(), cmd.CommandPath()
	if problems, ok := errors.AsType[*ProblemsError](err); ok {
		report.Error.Problems = problems.Problems
	}
	encodeLine(s.Err, report)
}

func codeOf(err error) string {
	if problems, ok := errors.AsType[*ProblemsError](err); ok {
		return problems.Code
	}
	if _, ok := errors.AsType[*UsageError](err); ok {
		return CodeUsage
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return CodeNotFound
	case errors.Is(err, context.DeadlineExceeded):
		return CodeTimeout
	case errors.Is(err, context.Canceled):
		return CodeCanceled
	}
	return CodeUnusable
}

// Notef prints a line on s.Err that is not the result of cmd: as text, or as one line of JSON
// beside JSON output. Kind is note or warning.
func Notef(cmd *cobra.Command, s Streams, kind, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if ForMachines(cmd) {
		encodeLine(s.Err, map[string]string{kind: text})
		return
	}
	fmt.Fprintf(s.Err, "%s: %s\n", kind, text)
}

// ForMachines reports whether the output of cmd is JSON or YAML; one line of JSON is YAML, too.
func ForMachines(cmd *cobra.Command) bool {
	flag := cmd.Flags().Lookup("output")
	return flag != nil && (flag.Value.String() == "json" || flag.Value.String() == "yaml")
}

// asksForJSON reports whether a command line that could not be parsed asks for JSON or YAML.
func asksForJSON(args []string) bool {
	for i, arg := range args {
		if arg == "--" {
			return false
		}
		for _, name := range []string{"--output", "-o"} {
			value, ok := strings.CutPrefix(arg, name)
			if value == "" && i+1 < len(args) {
				value = args[i+1]
			}
			if value = strings.TrimPrefix(value, "="); ok && (value == "json" || value == "yaml") {
				return true
			}
		}
	}
	return false
}

// encodeLine writes what cannot fail to encode; the stream is the last one there is to tell.
func encodeLine(w io.Writer, value any) {
	_ = EncodeJSON(w, value, "")
}

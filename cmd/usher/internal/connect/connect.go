// Package connect prints and writes the output of commands that connect API servers to Usher.
package connect

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/cmd/usher/internal/policies"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/internal/webhookconfig/credential"
)

// The usage of flags of commands that write configuration for API servers.
const (
	DirUsage   = "folder of the files on the hosts of the API servers (default: --out, or /etc/kubernetes/usher)"
	CertUsage  = "PEM file with the client certificate to present; API servers read it"
	KeyUsage   = "PEM file with the private key of --client-cert-file"
	TokenUsage = "file with bearer tokens; API servers send the one in it"
)

// RegisterOut adds the flag --out.
func RegisterOut(flags *pflag.FlagSet, out *string) {
	flags.StringVar(out, "out", "", "folder to write the files to (default: print them)")
}

// PrintFiles prints files as one YAML stream, each below a comment with its name.
func PrintFiles(s cli.Streams, files []credential.File) error {
	for i, file := range files {
		separator := ""
		if i > 0 {
			separator = "---\n"
		}
		if _, err := fmt.Fprintf(s.Out, "%s# %s\n%s", separator, file.Name, file.Content); err != nil {
			return err
		}
	}
	return nil
}

// WriteFiles writes files to a folder, which it makes, and prints their paths.
func WriteFiles(s cli.Streams, dir string, files []credential.File) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("write files: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("write files: %w", err)
	}
	defer func() { _ = root.Close() }()
	for _, file := range files {
		if err := root.WriteFile(file.Name, file.Content, 0o600); err != nil {
			return fmt.Errorf("write files: %w", err)
		}
		if _, err := fmt.Fprintln(s.Out, filepath.Join(dir, file.Name)); err != nil {
			return err
		}
	}
	return nil
}

// PrintProblems prints problems with a configuration; an error among them is a negative answer.
func PrintProblems(s cli.Streams, problems []rule.Problem, output *cli.OutputFlag, color *cli.ColorFlag) error {
	var err error
	if output.Value == "text" {
		var b strings.Builder
		for _, problem := range problems {
			b.WriteString(policies.Paint(problem, color.Palette(s.Out)) + "\n")
		}
		if len(problems) == 0 {
			b.WriteString("no problems\n")
		}
		_, err = fmt.Fprint(s.Out, b.String())
	} else {
		err = output.Encode(s.Out, append([]rule.Problem{}, problems...))
	}
	if err == nil && len(rule.Errors(problems)) > 0 {
		return cli.ErrNegative
	}
	return err
}

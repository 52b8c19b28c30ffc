package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	"sigs.k8s.io/yaml"
)

// An outputFlag is the -o flag of a command.
type outputFlag struct {
	value   string
	allowed []string
}

// register adds the flag to cmd; the first format is the default.
func (o *outputFlag) register(cmd *cobra.Command, formats ...string) {
	o.allowed, o.value = formats, formats[0]
	cmd.Flags().VarP(o, "output", "o", "how to print it: "+strings.Join(formats, ", "))
	offer(cmd, "output", formats...)
}

// offer has shells complete a flag of cmd with these values.
func offer(cmd *cobra.Command, flag string, values ...string) {
	// It fails only for a flag that does not exist.
	if err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err)
	}
}

func (o *outputFlag) String() string { return o.value }

func (o *outputFlag) Set(value string) error {
	if !slices.Contains(o.allowed, value) {
		return fmt.Errorf("use one of %s", strings.Join(o.allowed, ", "))
	}
	o.value = value
	return nil
}

// Type implements pflag.Value.
func (o *outputFlag) Type() string { return "format" }

// encode writes value as JSON or YAML.
func (o *outputFlag) encode(w io.Writer, value any) error {
	if o.value == "yaml" {
		encoded, err := yaml.Marshal(value)
		if err != nil {
			return fmt.Errorf("encode output: %w", err)
		}
		_, err = w.Write(encoded)
		return err
	}
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(value)
}

// A colorFlag is the --color flag of a command.
type colorFlag struct{ value string }

func (c *colorFlag) register(cmd *cobra.Command) {
	c.value = "auto"
	cmd.Flags().Var(c, "color", "use colours: auto (on a terminal, unless NO_COLOR is set), always or never")
	offer(cmd, "color", "auto", "always", "never")
}

func (c *colorFlag) String() string { return c.value }

func (c *colorFlag) Set(value string) error {
	if !slices.Contains([]string{"auto", "always", "never"}, value) {
		return fmt.Errorf("use one of auto, always, never")
	}
	c.value = value
	return nil
}

// Type implements pflag.Value.
func (c *colorFlag) Type() string { return "when" }

func (c *colorFlag) palette(w io.Writer) palette {
	switch c.value {
	case "always":
		return colours
	case "auto":
		if os.Getenv("NO_COLOR") == "" && isTerminal(w) {
			return colours
		}
	}
	return palette{}
}

// A palette paints text; the zero palette leaves it as it is.
type palette struct{ red, green, yellow, cyan, bold, faint string }

var colours = palette{
	red: "\x1b[31m", green: "\x1b[32m", yellow: "\x1b[33m", cyan: "\x1b[36m", bold: "\x1b[1m", faint: "\x1b[2m",
}

func paint(colour, text string) string {
	if colour == "" {
		return text
	}
	return colour + text + "\x1b[0m"
}

func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// count is a number with its noun: "1 policy", "2 policies".
func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/usher-dev/usher/internal/printable"
)

// A Choice is a flag with one of a few values.
type Choice struct {
	Value   string
	allowed []string
}

// Allow sets the values, of which the first one is the default.
func (c *Choice) Allow(values ...string) { c.allowed, c.Value = values, values[0] }

// String implements pflag.Value.
func (c *Choice) String() string { return c.Value }

// Set implements pflag.Value.
func (c *Choice) Set(value string) error {
	if !slices.Contains(c.allowed, value) {
		return fmt.Errorf("use one of %s", strings.Join(c.allowed, ", "))
	}
	c.Value = value
	return nil
}

// Type implements pflag.Value.
func (c *Choice) Type() string { return "choice" }

// An OutputFlag is the -o flag of a command.
type OutputFlag struct{ Choice }

// Register adds the flag to cmd; the first format is the default.
func (o *OutputFlag) Register(cmd *cobra.Command, formats ...string) {
	o.Allow(formats...)
	cmd.Flags().VarP(o, "output", "o", "output format: "+strings.Join(formats, ", "))
	Offer(cmd, "output", formats...)
}

// Offer has shells complete a flag of cmd with these values.
func Offer(cmd *cobra.Command, flag string, values ...string) {
	// It fails only for a flag that does not exist.
	if err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err)
	}
}

// Type implements pflag.Value.
func (o *OutputFlag) Type() string { return "format" }

// Report has text write the report as text, or writes it as JSON or YAML.
func (o *OutputFlag) Report(w io.Writer, report any, text func() error) error {
	if o.Value == "text" {
		return text()
	}
	return o.Encode(w, report)
}

// Encode writes value as JSON or YAML.
func (o *OutputFlag) Encode(w io.Writer, value any) error {
	if o.Value == "yaml" {
		encoded, err := printable.YAML(value)
		if err != nil {
			return fmt.Errorf("encode output: %w", err)
		}
		_, err = w.Write(encoded)
		return err
	}
	return EncodeJSON(w, value, "  ")
}

// EncodeJSON writes value as JSON, with escapes in place of characters that are not printed. An empty
// indent means one line.
func EncodeJSON(w io.Writer, value any, indent string) error {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", indent)
	if err := encoder.Encode(value); err != nil {
		return err
	}
	_, err := w.Write(printable.JSON(b.Bytes()))
	return err
}

// A ColorFlag is the --color flag of a command.
type ColorFlag struct{ Choice }

// Register adds the flag to cmd.
func (c *ColorFlag) Register(cmd *cobra.Command) {
	c.Allow("auto", "always", "never")
	cmd.Flags().Var(c, "color", "when to use colors: auto, always or never; auto means on a terminal, unless NO_COLOR is set")
	Offer(cmd, "color", c.allowed...)
}

// Type implements pflag.Value.
func (c *ColorFlag) Type() string { return "when" }

// Palette returns the colours for what is written to w.
func (c *ColorFlag) Palette(w io.Writer) Palette {
	if c.Value != "always" && (c.Value != "auto" || os.Getenv("NO_COLOR") != "" || !IsTerminal(w)) {
		return Palette{}
	}
	begin := escapeOf(w)
	return Palette{
		Red: begin + "[31m", Green: begin + "[32m", Yellow: begin + "[33m", Cyan: begin + "[36m", Bold: begin + "[1m", Faint: begin + "[2m",
	}
}

// A Palette paints text for the writer that it is of.
type Palette = printable.Palette

// Paint returns text in a colour of a [Palette].
func Paint(colour, text string) string { return printable.Paint(colour, text) }

// IsTerminal reports whether w is a terminal.
func IsTerminal(w io.Writer) bool {
	file := FileOf(w)
	return file != nil && term.IsTerminal(int(file.Fd()))
}

// Width returns the width of w in characters; 0 if w is not a terminal.
func Width(w io.Writer) int {
	file := FileOf(w)
	if file == nil {
		return 0
	}
	width, _, err := term.GetSize(int(file.Fd()))
	if err != nil {
		return 0
	}
	return width
}

// Count is a number with its noun: "1 policy", "2 policies".
func Count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// Some returns the first few of many names, and how many more there are.
func Some(names []string) string {
	const most = 5
	some := strings.Join(names[:min(len(names), most)], ", ")
	if more := len(names) - most; more > 0 {
		some += fmt.Sprintf(" and %d more", more)
	}
	return some
}

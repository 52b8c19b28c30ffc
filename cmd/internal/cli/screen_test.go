package cli_test

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/usher-dev/usher/cmd/internal/cli"
)

// print returns what a command shows that writes texts, the colours of its palette in place of RED.
func print(t *testing.T, size int, texts ...string) string {
	t.Helper()
	newRoot := func(s cli.Streams) *cobra.Command {
		var color cli.ColorFlag
		root := &cobra.Command{Use: "root", RunE: func(*cobra.Command, []string) error {
			palette := color.Palette(s.Out)
			for _, text := range texts {
				text = strings.ReplaceAll(text, "RED", cli.Paint(palette.Red, "red"))
				for len(text) > 0 {
					n := min(size, len(text))
					if written, err := io.WriteString(s.Out, text[:n]); err != nil || written != n {
						return fmt.Errorf("%d bytes of %d: %w", written, n, err)
					}
					text = text[n:]
				}
			}
			return nil
		}}
		color.Register(root)
		return root
	}
	var out, err strings.Builder
	if status := cli.Execute(t.Context(), newRoot, cli.Streams{Out: &out, Err: &err}, []string{"--color", "always"}); status != cli.ExitOK {
		t.Fatalf("status %d: %s", status, err.String())
	}
	return out.String()
}

func TestScreen(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ reason, text, want string }{
		{"plain text", "at most 3\n\treplicas", "at most 3\n\treplicas"},
		{"other scripts", "größer Ω", "größer Ω"},
		{"colours of the command", "a RED b\n", "a \x1b[31mred\x1b[0m b\n"},
		{"colours of others", "a \x1b[31mred\x1b[0m b\n", `a \x1b[31mred\x1b[0m b` + "\n"},
		{"colours of others within", "\x1b\x1b[2JRED\x1b", `\x1b\x1b[2J` + "\x1b[31mred\x1b[0m" + `\x1b`},
		{"a line that is overwritten", "denied\rallowed\a", `denied\rallowed\a`},
		{"control characters of two bytes", "\u009b2J", `\u009b2J`},
		{"such bytes", "\x9b2J\xe2\x80", `\x9b2J\xe2\x80`},
		{"direction and width", "a\u202eb\u2066c\u200bd", `a\u202eb\u2066c\u200bd`},
	} {
		for _, size := range []int{1, 2, 3, 7, 1 << 10} {
			if got := print(t, size, row.text); got != row.want {
				t.Errorf("%s, in pieces of %d bytes: %q, want %q", row.reason, size, got, row.want)
			}
		}
	}
}

func FuzzScreen(f *testing.F) {
	for _, text := range []string{"a\x1b[31mRED", "\xe2\x80", "\u202e\n", "\x1b\x1b"} {
		f.Add(text, 3)
	}
	f.Fuzz(func(t *testing.T, text string, size int) {
		if strings.Contains(text, "RED") || size <= 0 {
			t.Skip()
		}
		got := print(t, size, text, "RED")
		shown, found := strings.CutSuffix(got, "\x1b[31mred\x1b[0m")
		if !found || strings.ContainsFunc(shown, func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' || r >= 0x7f && r < 0xa0 }) {
			t.Errorf("%q is shown as %q", text, got)
		}
	})
}

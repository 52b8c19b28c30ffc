package format_test

import (
	"testing"

	"github.com/usher-dev/usher/cmd/usher/internal/format"
)

func TestText(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ reason, text, clean, lines string }{
		{"plain text", "at most 3 replicas", "at most 3 replicas", "at most 3 replicas"},
		{"other scripts", "größer Ω", "größer Ω", "größer Ω"},
		{"lines and tabs", "a\n\tb", "a  b", "a\n\tb"},
		{"colors of palettes", "\x1b[31mno\x1b[0m", `\x1b[31mno\x1b[0m`, "\x1b[31mno\x1b[0m"},
		{"text that is concealed", "\x1b[8mno", `\x1b[8mno`, `\x1b[8mno`},
		{"a screen that is cleared", "\x1b[2J\x1b[Hok", `\x1b[2J\x1b[Hok`, `\x1b[2J\x1b[Hok`},
		{"a line that is overwritten", "denied\rallowed", "denied allowed", `denied\rallowed`},
		{"the title of a window", "\x1b]0;x\a", `\x1b]0;x\a`, `\x1b]0;x\a`},
		{"a control character in two bytes", "\u009b2J", `\u009b2J`, `\u009b2J`},
		{"text that runs backwards", "a\u202eb", `a\u202eb`, `a\u202eb`},
		{"bytes that are no text", "a\xffb", `a\xffb`, `a\xffb`},
	} {
		if got := format.Clean(row.text); got != row.clean {
			t.Errorf("%s: Clean(%q) = %q, want %q", row.reason, row.text, got, row.clean)
		}
		if got := format.Lines(row.text); got != row.lines {
			t.Errorf("%s: Lines(%q) = %q, want %q", row.reason, row.text, got, row.lines)
		}
	}
}

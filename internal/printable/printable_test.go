package printable_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/usher-dev/usher/internal/printable"
)

func TestText(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ reason, text, line, lines, blank string }{
		{"plain text", "at most 3 replicas", "at most 3 replicas", "at most 3 replicas", "at most 3 replicas"},
		{"other scripts", "größer Ω", "größer Ω", "größer Ω", "größer Ω"},
		{"lines and tabs", "a\n\tb", "a  b", "a\n\tb", "a  b"},
		{"colors", "\x1b[31mno\x1b[0m", `\x1b[31mno\x1b[0m`, `\x1b[31mno\x1b[0m`, "[31mno [0m"},
		{"a screen that is cleared", "\x1b[2J\x1b[Hok", `\x1b[2J\x1b[Hok`, `\x1b[2J\x1b[Hok`, "[2J [Hok"},
		{"a line that is overwritten", "denied\rallowed", "denied allowed", `denied\rallowed`, "denied allowed"},
		{"the title of a window", "\x1b]0;x\a", `\x1b]0;x\a`, `\x1b]0;x\a`, "]0;x"},
		{"a control character in two bytes", "\u009b2J", `\u009b2J`, `\u009b2J`, "2J"},
		{"a character that is deleted", "a\x7fb", `a\u007fb`, `a\u007fb`, "a b"},
		{"text that runs backwards", "a\u202eb", `a\u202eb`, `a\u202eb`, "a b"},
		{"an isolate of direction", "a\u2066b", `a\u2066b`, `a\u2066b`, "a b"},
		{"the end of a line by another name", "a\u2028b", `a\u2028b`, `a\u2028b`, "a b"},
		{"a space without width", "a\u200bb", `a\u200bb`, `a\u200bb`, "a\u200bb"},
		{"a character for tags", "a\U000e0041b", `a\udb40\udc41b`, `a\udb40\udc41b`, "a\U000e0041b"},
		{"bytes that are no text", "a\xffb", `a\xffb`, `a\xffb`, "a\ufffdb"},
		{"text that had such bytes", "a\ufffdb", "a\ufffdb", "a\ufffdb", "a\ufffdb"},
	} {
		if got := printable.Line(row.text); got != row.line {
			t.Errorf("%s: Line(%q) = %q, want %q", row.reason, row.text, got, row.line)
		}
		if got := printable.Lines(row.text); got != row.lines {
			t.Errorf("%s: Lines(%q) = %q, want %q", row.reason, row.text, got, row.lines)
		}
		if got := printable.Blank(row.text); got != row.blank {
			t.Errorf("%s: Blank(%q) = %q, want %q", row.reason, row.text, got, row.blank)
		}
	}
}

func TestCut(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		reason, text string
		limit        int
		bytes, runes string
	}{
		{"all of it", "abcde", 5, "abcde", "abcde"},
		{"less than all", "abcdef", 5, "ab…", "abcd…"},
		{"a character that does not fit", "aüüüü", 5, "a…", "aüüüü"},
		{"characters of four bytes", "𝔸𝔹ℂ𝔻", 9, "𝔸…", "𝔸𝔹ℂ𝔻"},
		{"nothing", "", 3, "", ""},
	} {
		if got := printable.Cut(row.text, row.limit); got != row.bytes {
			t.Errorf("%s: Cut is %q, want %q", row.reason, got, row.bytes)
		}
		if got := printable.CutRunes(row.text, row.limit); got != row.runes {
			t.Errorf("%s: CutRunes is %q, want %q", row.reason, got, row.runes)
		}
	}
}

func TestBlank(t *testing.T) {
	t.Parallel()
	const text = " a\n\tb \x1b[1m \u202ec\r\n"
	if got, want := printable.BlankLines(text), " a\n\tb  [1m  c \n"; got != want {
		t.Errorf("BlankLines is %q, want %q", got, want)
	}
	if got, want := printable.Words(text), "a b [1m c"; got != want {
		t.Errorf("Words is %q, want %q", got, want)
	}
}

// TestEncoded: what programs read means the same as before.
func TestEncoded(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ reason, text string }{
		{"plain text", "at most 3 replicas"},
		{"other scripts", "größer Ω"},
		{"control characters", "\x1b[31m\a\r\x7f\u009b"},
		{"direction", "a\u202eb: \u2066c"},
		{"characters of two units", "a\U000e0041b"},
		{"what YAML would take for a comment", "a\u200b # b"},
		{"other ends of lines", "a\u2028b\u0085c"},
		{"the end of a line alone", "a\u2028b"},
		{"spaces", "a\u00a0b"},
		{"lines", "a\n\u200bb\n\tc\n"},
		{"an escape that is text", `\u202e` + "\u202e"},
	} {
		value := map[string]any{"key" + row.text: []any{row.text, 1.5, true, nil}}
		encoded, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		var fromJSON, fromYAML map[string]any
		asJSON := printable.JSON(encoded)
		if err := json.Unmarshal(asJSON, &fromJSON); err != nil {
			t.Fatalf("%s: %v: %s", row.reason, err, asJSON)
		}
		asYAML, err := printable.YAML(value)
		if err != nil {
			t.Fatal(err)
		}
		if err := yaml.Unmarshal(asYAML, &fromYAML); err != nil {
			t.Fatalf("%s: %v: %s", row.reason, err, asYAML)
		}
		if diff := cmp.Diff(value, fromJSON); diff != "" {
			t.Errorf("%s: JSON (-want +got):\n%s", row.reason, diff)
		}
		if diff := cmp.Diff(value, fromYAML); diff != "" {
			t.Errorf("%s: YAML (-want +got):\n%s", row.reason, diff)
		}
		for _, r := range strings.ReplaceAll(string(asJSON)+string(asYAML), "\n", "") {
			if !unicode.IsPrint(r) {
				t.Errorf("%s: %U in %s%s", row.reason, r, asJSON, asYAML)
			}
		}
	}
}

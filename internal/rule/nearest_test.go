package rule_test

import (
	"strings"
	"testing"

	"github.com/usher-dev/usher/internal/rule"
)

func TestNearest(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ reason, wrong, want string }{
		{"two letters are swapped", "vaild", "valid"},
		{"a letter is missing", "reson", "reason"},
		{"a letter is missing in a short word", "pth", "path"},
		{"a letter too many", "paths", "path"},
		{"case does not count", "Valid", "valid"},
		{"nothing is near", "comment", ""},
		{"a short word is near few", "ab", ""},
		{"the empty word is near nothing", "", ""},
		{"a word is far too long", strings.Repeat("valid", 1000), ""},
	} {
		if got := rule.Nearest(test.wrong, []string{"valid", "reason", "warnings", "path", "op"}); got != test.want {
			t.Errorf("%s: nearest to %q is %q, want %q", test.reason, test.wrong, got, test.want)
		}
	}
}

func TestSuggestion(t *testing.T) {
	t.Parallel()
	for wrong, want := range map[string]string{"vaild": "did you mean valid?", "comment": ""} {
		if got := rule.Suggestion(wrong, []string{"valid", "reason"}); got != want {
			t.Errorf("%s: %q, want %q", wrong, got, want)
		}
	}
}

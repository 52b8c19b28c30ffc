package printable_test

import (
	"strings"
	"testing"

	"github.com/usher-dev/usher/internal/printable"
)

func TestList(t *testing.T) {
	t.Parallel()
	for want, words := range map[string]string{"": "", "a": "a", "a or b": "a b", "a, b or c": "a b c"} {
		if got := printable.List(strings.Fields(words), "or"); got != want {
			t.Errorf("%q are listed as %q", words, got)
		}
	}
}

// TestHead: what is kept has a limit, and what is written has none.
func TestHead(t *testing.T) {
	t.Parallel()
	h := printable.Head{Limit: 5}
	for _, text := range []string{"ab", "", "cdü", strings.Repeat("x", 1<<20)} {
		if n, err := h.Write([]byte(text)); n != len(text) || err != nil {
			t.Errorf("%d bytes of %d are written: %v", n, len(text), err)
		}
	}
	if got := h.String(); got != "abcd" {
		t.Errorf("%q is kept", got)
	}
}

// Package yamldiff shows what differs between two objects, as people read them.
package yamldiff

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/usher-dev/usher/internal/printable"
)

// Of is a unified diff of two objects as YAML, without file names, and with escapes in place of
// characters that are not printed; empty if they are equal.
func Of(before, after map[string]any) (string, error) {
	old, err := printable.YAML(before)
	if err != nil {
		return "", fmt.Errorf("encode object: %w", err)
	}
	changed, err := printable.YAML(after)
	if err != nil {
		return "", fmt.Errorf("encode object: %w", err)
	}
	var b strings.Builder
	for line := range bytes.Lines(diff.Diff("before", old, "after", changed)) {
		text := string(line)
		if !strings.HasPrefix(text, "diff ") && !strings.HasPrefix(text, "--- before") && !strings.HasPrefix(text, "+++ after") {
			b.WriteString(text)
		}
	}
	return b.String(), nil
}

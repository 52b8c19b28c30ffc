// Package yamldiff shows what differs between two objects, as people read them.
package yamldiff

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/rogpeppe/go-internal/diff"
	"sigs.k8s.io/yaml"
)

// Of is a unified diff of two objects as YAML, without file names; empty if they are equal.
func Of(before, after map[string]any) (string, error) {
	old, err := yaml.Marshal(before)
	if err != nil {
		return "", fmt.Errorf("encode object: %w", err)
	}
	changed, err := yaml.Marshal(after)
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

package dir_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/usher-dev/usher/source"
	"github.com/usher-dev/usher/source/dir"
)

// places is a set as lines, with the places of fields.
func places(set source.Set) []string {
	lines := summary(set, "")
	for i := range set.Policies {
		p := &set.Policies[i]
		for _, field := range []string{"", "spec", "metadata.name", "spec.typo"} {
			lines = append(lines, fmt.Sprint(p.Position(field)))
		}
		lines = append(lines, p.Unknown...)
		lines = append(lines, p.Duplicate...)
	}
	return lines
}

// TestParserReadsWhatParseReads: whatever was read before.
func TestParserReadsWhatParseReads(t *testing.T) {
	t.Parallel()
	a, b := policy("ClusterOverridePolicy", "a"), "apiVersion: policy.kcloudlabs.io/v1alpha1\nkind: ClusterValidatePolicy\nmetadata:\n  name: b\nspec:\n  typo: 1\n  typo: 2\n"
	parser := dir.NewParser("a.yaml")
	for _, text := range []string{
		a, a + "---\n" + b, "# one\n\n# two\n---\n" + b + "---\n" + a, b + "---\n" + a, a + "---\n" + a, a + "---\nkind: [\n---\n" + b, "---\n\nkind: [\n---\n" + b,
		"", strings.Repeat("\n", 10) + a, "{", "--- " + a, a,
	} {
		if diff := cmp.Diff(places(dir.Parse("a.yaml", []byte(text))), places(parser.Parse([]byte(text)))); diff != "" {
			t.Errorf("%q: -Parse +Parser:\n%s", text, diff)
		}
	}
	first, again := parser.Parse([]byte("# one\n---\n"+a)), parser.Parse([]byte("# one\n# two\n---\n"+a))
	if first.Policies[0].Object != again.Policies[0].Object {
		t.Error("a document that did not change was read again")
	}
}

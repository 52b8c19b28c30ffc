package policytest_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/usher-dev/usher/internal/policytest"
)

// TestOriginal compares Usher with what kinitiras does, case by case. A deliberate
// difference is a row of the table in docs/compatibility.md that begins with the case's
// name: such a case says under betterExpect what Usher does, and what it records of
// kinitiras must not hold.
func TestOriginal(t *testing.T) {
	t.Parallel()
	cases, err := policytest.Load("testdata/kinitiras")
	if err != nil {
		t.Fatal(err)
	}
	documented := deviations(t)
	for _, c := range cases {
		reason, deviates := documented[c.Name]
		delete(documented, c.Name)
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			if result := c.Run(t.Context()); result.Status != policytest.Passed {
				t.Errorf("class %s: %s\n%s", c.Class, c.Description, result.Message)
			}
			if ours := c.BetterExpect != nil && c.Class != "bug"; ours != deviates {
				t.Errorf("class %s has a betterExpect: %t, has a row in docs/compatibility.md: %t", c.Class, ours, deviates)
			}
			if !deviates {
				return
			}
			recorded := *c
			recorded.BetterExpect = nil
			if result := recorded.Run(t.Context()); result.Status == policytest.Passed {
				t.Errorf("docs/compatibility.md says that it differs (%s), but it does not: remove the row", reason)
			}
		})
	}
	for name := range documented {
		t.Errorf("docs/compatibility.md has a row for %s, which is no case", name)
	}
}

// TestSemantics runs the cases that follow from the description of the kinds: what the
// recorded cases, each of which was tried on kinitiras, leave out.
func TestSemantics(t *testing.T) {
	t.Parallel()
	policytest.Run(t, "testdata/semantics")
}

var deviationRow = regexp.MustCompile("^\\| *`([a-z][0-9]{2}-[a-z0-9-]+)` *\\|(.*)\\|")

// deviations returns the reasons in docs/compatibility.md by case.
func deviations(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile("../../docs/compatibility.md")
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	reasons := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if m := deviationRow.FindStringSubmatch(line); m != nil {
			reasons[m[1]] = strings.TrimSpace(m[2])
		}
	}
	return reasons
}

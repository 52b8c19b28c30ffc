package policytest_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/usher-dev/usher/policytest"
)

// TestOriginal compares Usher with what kinitiras does, case by case. A deliberate
// difference is a row of the table in docs/compatibility.md that begins with the case's
// name; such a case has to differ.
func TestOriginal(t *testing.T) {
	t.Parallel()
	cases, err := policytest.Load("testdata/kinitiras")
	if err != nil {
		t.Fatal(err)
	}
	documented := deviations(t)
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			reason, deviates := documented[c.Name]
			result := c.Run(t.Context())
			switch {
			case deviates && result.Status == policytest.Passed:
				t.Errorf("docs/compatibility.md says that it differs (%s), but it does not: remove the row", reason)
			case !deviates && result.Status != policytest.Passed:
				t.Errorf("class %s: %s\n%s", c.Class, c.Description, result.Message)
			}
		})
	}
}

var deviationRow = regexp.MustCompile("^\\| *`([a-z][0-9]{2}-[a-z0-9-]+)` *\\|(.*)\\|")

// deviations returns the reasons in docs/compatibility.md by case.
func deviations(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile("../docs/compatibility.md")
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

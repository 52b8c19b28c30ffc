package kcloudlabs_test

import (
	"slices"
	"testing"

	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/rule"
)

// TestRecordedPoliciesAreNoMistakes: what worked is not refused when it is written again. Those
// that fail at every request are.
func TestRecordedPoliciesAreNoMistakes(t *testing.T) {
	t.Parallel()
	fails := []string{"b03-cue-missing-patches", "b12-cue-no-oldobject-for-override", "l23-non-boolean-valid", "n13-missing-output-not-detected"}
	found := map[string]bool{}
	for _, c := range loadCases(t) {
		for _, policy := range c.written(t) {
			for _, p := range compile.Policy(policy).Problems {
				if p.Severity != rule.Mistake {
					continue
				}
				if found[c.Name] = true; !slices.Contains(fails, c.Name) {
					t.Errorf("%s: %s", c.Name, p)
				}
			}
		}
	}
	for _, name := range fails {
		if !found[name] {
			t.Errorf("%s: no mistake found", name)
		}
	}
}

package policytest_test

import (
	"testing"
	"time"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/engine"
	"github.com/usher-dev/usher/internal/index"
	"github.com/usher-dev/usher/internal/policytest"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/internal/rule/ruletest"
)

// TestDependencies runs the programs of all cases with what they say that they read and depend on
// alone.
func TestDependencies(t *testing.T) {
	t.Parallel()
	cases, err := policytest.Load(
		"testdata/kinitiras", "testdata/semantics", "testdata/vap", "testdata/object", "testdata/exempt",
		"../../examples/cases", "../../examples/cel/cases", "../../examples/object-policies/cases", "../../examples/cookbook",
	)
	if err != nil {
		t.Fatal(err)
	}
	var all, silent, userless int
	for _, c := range cases {
		if c.Skip != "" {
			continue
		}
		setup, err := c.Setup(t.Context())
		if err != nil {
			continue // The case is about that.
		}
		r, err := c.Request.For(c.Phase)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(c.Name, func(t *testing.T) {
			e := engine.New(index.New(ruletest.Checked(t, setup.Rules)), setup.Facts, engine.Options{RuleTimeout: time.Minute})
			if _, err := e.Decide(t.Context(), r); err != nil {
				t.Error(err)
			}
		})
		setup.Close()
		for i := range setup.Rules {
			all++
			if on := setup.Rules[i].DependsOn(usher.Create); on == rule.OnAnything {
				silent++
			} else if !on.Any(rule.OnUser) {
				userless++
			}
		}
	}
	t.Logf("%d rules, %d depend on anything, %d on no user", all, silent, userless)
	if len(cases) < 900 || silent > all/50 || userless < all*9/10 {
		t.Errorf("%d cases, %d rules: %d depend on anything, and %d on no user", len(cases), all, silent, userless)
	}
}

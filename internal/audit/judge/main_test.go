package judge_test

import (
	"os"
	"testing"

	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/lang/cue"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/source/dir"
)

// TestMain lets the evaluator of CUE run in processes of its own.
func TestMain(m *testing.M) {
	cue.Main()
	os.Exit(m.Run())
}

// rules returns the rules of policies, which have no errors.
func rules(t testing.TB, manifests string) []rule.Rule {
	t.Helper()
	return compile.Order(compiled(t, manifests))
}

// compiled compiles policies, which have no errors.
func compiled(t testing.TB, manifests string) []compile.Compiled {
	t.Helper()
	set := dir.Parse("policies.yaml", []byte(manifests))
	if len(set.Unreadable) > 0 {
		t.Fatal(set.Unreadable)
	}
	all, problems := compile.All(set.Policies)
	for _, p := range rule.Errors(problems) {
		t.Fatal(p.Text())
	}
	return all
}

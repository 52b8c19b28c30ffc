package policytest_test

import (
	"os"
	"testing"

	"github.com/usher-dev/usher/live"
	"github.com/usher-dev/usher/policytest"
)

func TestMain(m *testing.M) {
	live.Main()
	os.Exit(m.Run())
}

func TestPolicies(t *testing.T) {
	t.Parallel()
	policytest.Run(t, "../examples/cases/condition-max-replicas.yaml")
}

// The Go test of the cases in a folder.
func ExampleRun() {
	var _ = func(t *testing.T) { policytest.Run(t, "testdata/cases") }
	// Output:
}

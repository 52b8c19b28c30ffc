// Package policytest runs the test cases of policies as Go tests. docs/test-format.md describes cases:
//
//	func TestPolicies(t *testing.T) { policytest.Run(t, "testdata/cases") }
//
// Cases of policies with CUE need processes that evaluate it: call [github.com/usher-dev/usher/live.Main]
// in TestMain.
//
// The cache of go test only sees changes of files inside the module: run go test -count=1 if cases or policies
// are outside of it.
package policytest

import (
	"testing"

	"github.com/usher-dev/usher/internal/policytest"
)

// Run loads the cases in files and folders, of every format, and runs each as a parallel subtest of t.
// A file that cannot be read is a subtest that fails, and the cases of the others run. A path that has no cases
// fails t.
func Run(t *testing.T, paths ...string) {
	t.Helper()
	policytest.Run(t, paths...)
}

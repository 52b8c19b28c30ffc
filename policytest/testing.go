package policytest

import (
	"testing"
)

// Run loads the cases in paths and runs each as a parallel subtest of t. A path that
// cannot be read, or that has no cases, fails t.
func Run(t *testing.T, paths ...string) {
	t.Helper()
	cases, err := Load(paths...)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			result := c.Run(t.Context())
			switch result.Status {
			case Skipped:
				t.Skip(result.Message)
			case Failed:
				t.Errorf("%s:\n%s", c.File, result.Message)
			case Passed:
			}
		})
	}
}

package policytest

import (
	"testing"
)

// Run loads the tests in paths, of every format, and runs each as a parallel subtest of t.
// A path that cannot be read, or that has no tests, fails t.
func Run(t *testing.T, paths ...string) {
	t.Helper()
	tests, err := Tests(paths...)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range tests {
		t.Run(test.Name, func(t *testing.T) {
			t.Parallel()
			result := test.Run(t.Context())
			switch result.Status {
			case Skipped:
				t.Skip(result.Message)
			case Failed:
				t.Errorf("%s:\n%s", test.File, result.Message)
			case Passed:
			}
		})
	}
}

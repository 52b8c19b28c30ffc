package policytest

import (
	"errors"
	"testing"
)

// Run loads the tests in paths, of every format, and runs each as a parallel subtest of t. A file that cannot be read is a
// subtest that fails, and the tests of the others run. A path that cannot be read, or that has no tests, fails t.
func Run(t *testing.T, paths ...string) {
	t.Helper()
	if len(paths) == 0 {
		t.Fatal(ErrNoCases)
	}
	named := newReferences()
	for _, path := range paths {
		tests, err := testsIn(named, path, func(use func(Document) error) error { return eachDocument([]string{path}, use) })
		var faulty faultyFiles
		if err != nil && !errors.As(err, &faulty) {
			t.Error(err)
		}
		for _, file := range faulty {
			t.Run(file.name, func(t *testing.T) { t.Helper(); t.Error(file) })
		}
		for _, test := range tests {
			t.Run(test.Name, func(t *testing.T) {
				t.Helper()
				t.Parallel()
				test.report(t)
			})
		}
	}
}

// report runs the test for t.
func (t Test) report(to *testing.T) {
	to.Helper()
	switch result := t.Run(to.Context()); result.Status {
	case Skipped:
		to.Skip(result.Message)
	case Failed:
		to.Errorf("%s:\n%s", t.File, result.Message)
	case Passed:
	}
}

package doortest_test

import (
	"os"
	"testing"

	"github.com/usher-dev/usher/internal/lang/cue"
)

// TestMain lets the evaluator of CUE run in processes of its own.
func TestMain(m *testing.M) {
	cue.Main()
	os.Exit(m.Run())
}

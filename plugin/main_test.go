package plugin_test

import (
	"os"
	"testing"

	"github.com/usher-dev/usher/internal/lang/worker"
	"github.com/usher-dev/usher/internal/trial/isolated"
)

// TestMain lets the evaluator of CUE run in processes of its own.
func TestMain(m *testing.M) {
	isolated.Main()
	// A test that is the first to need the workers may be in a bubble of its own time, which the others are not in.
	worker.Shared()
	os.Exit(m.Run())
}

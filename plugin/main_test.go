package plugin_test

import (
	"os"
	"testing"

	"github.com/usher-dev/usher/internal/trial/isolated"
)

// TestMain lets the evaluator of CUE run in processes of its own.
func TestMain(m *testing.M) {
	isolated.Main()
	os.Exit(m.Run())
}

package live_test

import (
	"os"
	"testing"

	"github.com/usher-dev/usher/internal/lang/cue"
	"github.com/usher-dev/usher/internal/lang/worker"
	"github.com/usher-dev/usher/internal/trial/isolated"
)

// TestMain lets CUE be evaluated, and policies be compiled, in processes of their own.
func TestMain(m *testing.M) {
	worker.Main(map[worker.Kind]worker.Handler{worker.CUE: cue.Handler(), worker.Policies: isolated.Handler(harm)})
	os.Exit(m.Run())
}

package cue_test

import (
	"os"
	"testing"

	"github.com/usher-dev/usher/internal/lang/cue"
	"github.com/usher-dev/usher/internal/lang/worker"
)

func TestMain(m *testing.M) {
	cue.Main()
	os.Exit(m.Run())
}

// onWorkers returns an evaluator with workers of its own.
func onWorkers(t testing.TB, l cue.Limits) *cue.Evaluator {
	t.Helper()
	pool := worker.New(worker.Options{})
	t.Cleanup(pool.Close)
	return cue.OnWorkers(pool, l)
}

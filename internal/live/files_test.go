package live_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/live"
	"github.com/usher-dev/usher/source/dir"
)

const noPods = `
apiVersion: policy.kcloudlabs.io/v1alpha1
kind: ClusterValidatePolicy
metadata: {name: no-pods}
spec:
  resourceSelectors: [{apiVersion: v1, kind: Pod}]
  validateRules:
  - targetOperations: [CREATE]
    cue: 'validate: {valid: false, reason: "no pods"}'
`

// A script that writes its policies with "command > file" empties the file first. No request
// is admitted meanwhile.
func TestNothingIsUnjudgedWhileAFileIsRewritten(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "policies.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(noPods)
	l := live.New(live.Options{Log: slog.New(slog.DiscardHandler)})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	running.Go(func() {
		if err := l.Run(ctx, dir.New(filepath.Dir(path))); err != nil {
			t.Errorf("follow policies: %v", err)
		}
	})
	for deadline := time.Now().Add(20 * time.Second); l.Status().Rules == 0; {
		if time.Now().After(deadline) {
			t.Fatal("the policy is not in force")
		}
		<-time.After(time.Millisecond)
	}
	denied := 0
	judge := func(until <-chan time.Time) {
		t.Helper()
		for {
			request := createPod()
			request.Phase = usher.Validate
			decision, err := l.Decide(t.Context(), request)
			if err != nil || decision.Verdict != usher.Deny {
				t.Fatalf("after %d denials: allowed, error %v", denied, err)
			}
			denied++
			select {
			case <-until:
				return
			case <-time.After(time.Millisecond):
			}
		}
	}
	pause := time.NewTicker(400 * time.Millisecond)
	defer pause.Stop()
	for range 4 {
		write("")
		judge(pause.C)
		write(noPods[:len(noPods)/2])
		judge(pause.C)
		write(noPods + "# written again\n")
		judge(pause.C)
	}
}

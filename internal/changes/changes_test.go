package changes_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/usher-dev/usher/internal/changes"
)

func TestPauseWait(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	for _, test := range []struct {
		reason string
		// at is when something changes.
		at   []time.Duration
		want time.Duration
	}{
		{"nothing more changes", nil, 100 * ms},
		{"each change starts the pause anew", []time.Duration{50 * ms, 140 * ms}, 240 * ms},
		{"a change after the pause is another series", []time.Duration{150 * ms}, 100 * ms},
		{"what never stops changing is complete at the limit", []time.Duration{
			90 * ms, 180 * ms, 270 * ms, 360 * ms, 450 * ms, 540 * ms, 630 * ms,
		}, 500 * ms},
	} {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				changed := make(chan struct{}, 1)
				for _, at := range test.at {
					time.AfterFunc(at, func() { changes.Signal(changed) })
				}
				began := time.Now()
				complete := changes.Pause{Quiet: 100 * ms, Limit: 500 * ms}.Wait(t.Context(), changed)
				if took := time.Since(began); !complete || took != test.want {
					t.Errorf("complete %v after %s, want true after %s", complete, took, test.want)
				}
			})
		})
	}
}

func TestPauseWaitEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if (changes.Pause{Quiet: time.Hour, Limit: time.Hour}).Wait(ctx, nil) {
		t.Error("complete, though the context is done")
	}
}

func TestFoldersSignal(t *testing.T) {
	t.Parallel()
	first, second := t.TempDir(), t.TempDir()
	folders := changes.Watch(first, filepath.Join(first, "missing"))
	defer folders.Close()
	folders.Add(second)
	for _, folder := range []string{first, second} {
		if err := os.WriteFile(filepath.Join(folder, "file"), []byte("text"), 0o600); err != nil {
			t.Fatal(err)
		}
		select {
		case <-folders.Changed():
		case <-time.After(20 * time.Second):
			t.Fatalf("no signal for a new file in %s", folder)
		}
		// Creating and writing are two changes.
		changes.Pause{Quiet: 100 * time.Millisecond, Limit: time.Second}.Wait(t.Context(), folders.Changed())
	}
}

func TestFoldersWithoutFolder(t *testing.T) {
	t.Parallel()
	folders := changes.Watch()
	select {
	case <-folders.Changed():
		t.Error("a signal from no folder")
	default:
	}
	folders.Close()
}

package reload_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/usher-dev/usher/internal/reload"
)

func TestFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "file")
	f := &reload.File{Path: path}
	errBad := errors.New("bad")
	var accepted []string
	accept := func(content []byte) error {
		if string(content) == "bad" {
			return errBad
		}
		accepted = append(accepted, string(content))
		return nil
	}
	if err := f.Load(accept); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that does not exist: %v", err)
	}
	for _, row := range []struct {
		content string
		err     error
		want    []string
		reason  string
	}{
		{"", nil, []string{""}, "empty content is content"},
		{"", nil, []string{""}, "the same content is accepted once"},
		{"one", nil, []string{"", "one"}, "new content is accepted"},
		{"bad", errBad, []string{"", "one"}, "the error of accept is returned"},
		{"bad", errBad, []string{"", "one"}, "refused content is tried again"},
		{"one", nil, []string{"", "one"}, "what was accepted before the bad content still counts"},
		{"two", nil, []string{"", "one", "two"}, "new content after a bad one"},
	} {
		if err := os.WriteFile(path, []byte(row.content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := f.Load(accept); !errors.Is(err, row.err) {
			t.Errorf("%s: %v", row.reason, err)
		}
		if d := cmp.Diff(row.want, accepted); d != "" {
			t.Errorf("%s (-want +got):\n%s", row.reason, d)
		}
	}
}

func TestLoopReportsEachErrorOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		results := []error{errors.New("a"), errors.New("a"), errors.New("b"), nil, errors.New("b"), errors.New("b"), context.Canceled}
		var calls atomic.Int32
		changes := make(chan struct{})
		var reported []string
		done := make(chan struct{})
		go func() {
			defer close(done)
			reload.Loop{
				Every: time.Second, Changes: changes,
				Load: func(context.Context) error {
					n := int(calls.Add(1))
					if n == len(results) {
						cancel()
					}
					return results[n-1]
				},
				Report: func(err error) { reported = append(reported, err.Error()) },
			}.Run(ctx)
		}()
		synctest.Wait()
		if calls.Load() != 1 {
			t.Errorf("%d calls at the start, want 1", calls.Load())
		}
		changes <- struct{}{}
		changes <- struct{}{}
		synctest.Wait()
		if calls.Load() != 1 {
			t.Errorf("%d calls while there are changes, want 1", calls.Load())
		}
		time.Sleep(200 * time.Millisecond)
		synctest.Wait()
		if calls.Load() != 2 {
			t.Errorf("%d calls after the changes, want 2", calls.Load())
		}
		<-done
		// The last error is that of the end, and no news.
		if d := cmp.Diff([]string{"a", "b", "b"}, reported); d != "" {
			t.Errorf("reported (-want +got):\n%s", d)
		}
	})
}

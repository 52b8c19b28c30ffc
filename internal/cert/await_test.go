package cert_test

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/usher-dev/usher/internal/cert"
)

func TestAwaitFiles(t *testing.T) {
	t.Parallel()
	type files struct{ crt, key string }
	mismatched := func(t *testing.T, f files) { copyFile(t, f.key, anotherKey(t)) }
	for _, test := range []struct {
		reason string
		before func(t *testing.T, f files)
		// after happens three seconds later.
		after func(t *testing.T, f files, right files)
		// give ends the context; 0 never does.
		give    time.Duration
		took    time.Duration
		want    string
		waiting int
	}{
		{
			reason: "a pair is used at once", before: func(*testing.T, files) {},
		},
		{
			reason: "the key is new, and the certificate not yet", before: mismatched,
			after: func(t *testing.T, f, right files) { copyFile(t, f.key, right.key) },
			took:  3 * time.Second, waiting: 1,
		},
		{
			reason: "the key is there, and the certificate not yet",
			before: func(t *testing.T, f files) { remove(t, f.crt) },
			after:  func(t *testing.T, f, right files) { copyFile(t, f.crt, right.crt) },
			took:   3 * time.Second, waiting: 1,
		},
		{
			reason: "they never belong together", before: mismatched,
			took: 10 * time.Second, want: "private key does not match public key", waiting: 1,
		},
		{
			reason: "nobody writes them",
			before: func(t *testing.T, f files) { remove(t, f.crt); remove(t, f.key) },
			want:   "no such file or directory",
		},
		{
			reason: "the program is told to end", before: mismatched,
			give: time.Second, took: time.Second, want: "private key does not match public key", waiting: 1,
		},
	} {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			kept, folder := issue(t, t.TempDir(), 0, "localhost"), t.TempDir()
			right, f := files{kept.CertFile, kept.KeyFile}, files{filepath.Join(folder, "tls.crt"), filepath.Join(folder, "tls.key")}
			copyFile(t, f.crt, right.crt)
			copyFile(t, f.key, right.key)
			test.before(t, f)
			synctest.Test(t, func(t *testing.T) {
				ctx := t.Context()
				if test.give > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, test.give)
					defer cancel()
				}
				if test.after != nil {
					time.AfterFunc(3*time.Second, func() { test.after(t, f, right) })
				}
				var log bytes.Buffer
				began := time.Now()
				_, err := cert.AwaitFiles(ctx, f.crt, f.key, "", slog.New(slog.NewTextHandler(&log, nil)))
				if took := time.Since(began).Truncate(time.Second); took != test.took {
					t.Errorf("it took %s, want %s", took, test.took)
				}
				if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
					t.Errorf("error = %v, want %q", err, test.want)
				}
				if got := strings.Count(log.String(), "trying again"); got != test.waiting {
					t.Errorf("%d records, want %d: %s", got, test.waiting, log.String())
				}
			})
		})
	}
}

func anotherKey(t *testing.T) string {
	t.Helper()
	return issue(t, t.TempDir(), 0, "localhost").KeyFile
}

// copyFile replaces a file as a whole.
func copyFile(t *testing.T, to, from string) {
	t.Helper()
	write(t, to+".new", read(t, from))
	if err := os.Rename(to+".new", to); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

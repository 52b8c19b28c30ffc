package cert

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"time"
)

const (
	// writing is how long files that do not fit together may take to do so.
	writing = 10 * time.Second
	// again is the pause between two attempts.
	again = 100 * time.Millisecond
)

// AwaitFiles is [Files] for a program that is starting: another process may be writing the
// certificate and the key, one after the other. It retries for ten seconds and logs why, unless
// neither file exists.
func AwaitFiles(ctx context.Context, certFile, keyFile, caFile string, log *slog.Logger) (*Serving, error) {
	if log == nil {
		log = slog.Default()
	}
	reported := ""
	for deadline := time.Now().Add(writing); ; {
		serving, err := Files(certFile, keyFile, caFile, log)
		if err == nil || !exists(certFile) && !exists(keyFile) || !time.Now().Before(deadline) {
			return serving, err
		}
		if err.Error() != reported {
			reported = err.Error()
			log.Warn("certificate cannot be used yet, trying again", "error", err, "until", deadline)
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(again):
		}
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

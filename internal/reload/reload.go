// Package reload follows files that other programs replace while a process runs: certificates,
// tokens, lists. The last accepted content stays in force until there is a better one, and errors
// of a file are reported once.
package reload

import (
	"bytes"
	"context"
	"os"
	"time"

	"github.com/usher-dev/usher/internal/changes"
)

// A File holds the last accepted content of a file. The zero value with a Path has accepted
// nothing. It is for one goroutine.
type File struct {
	Path string

	content  []byte
	accepted bool
}

// Load reads the file and passes its content to accept, unless accept has returned nil for the
// same content before. Its errors are those of reading, and of accept.
func (f *File) Load(accept func(content []byte) error) error {
	content, err := os.ReadFile(f.Path)
	if err != nil {
		return err
	}
	if f.accepted && bytes.Equal(content, f.content) {
		return nil
	}
	if err := accept(content); err != nil {
		return err
	}
	f.content, f.accepted = content, true
	return nil
}

// A Loop loads again and again.
type Loop struct {
	// Every is the time between two calls of Load. Changes, which may be nil, brings the
	// next one forward: to when there have been none for a moment.
	Every   time.Duration
	Changes <-chan struct{}
	Load    func(context.Context) error
	// Report is called with each error of Load that reads differently than the one before.
	Report func(error)
}

// Run calls Load at once, and then until ctx is done.
func (l Loop) Run(ctx context.Context) {
	ticker := time.NewTicker(l.Every)
	defer ticker.Stop()
	reported := ""
	for {
		err := l.Load(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			reported = ""
		case err.Error() != reported:
			reported = err.Error()
			l.Report(err)
		}
		select {
		case <-ctx.Done():
			return
		case <-l.Changes:
			// Programs that renew several files write one after the other.
			if !(changes.Pause{Quiet: 100 * time.Millisecond, Limit: time.Second}).Wait(ctx, l.Changes) {
				return
			}
		case <-ticker.C:
		}
	}
}

package dir

import (
	"context"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	// quiet is how long nothing may happen before a change counts as complete: editors
	// write a file in several steps, and remove it for an instant.
	quiet = 100 * time.Millisecond
	// patience bounds the wait for quiet, for folders in which something always happens.
	patience = 500 * time.Millisecond
)

// A watcher tells that something has changed in one of its folders. It does without
// fsnotify when the system has no more watches to give; polling then has to do.
type watcher struct {
	fsnotify *fsnotify.Watcher
	// changed holds at most one message, however much has happened.
	changed chan struct{}
	done    chan struct{}
}

func newWatcher() *watcher {
	w := &watcher{changed: make(chan struct{}, 1), done: make(chan struct{})}
	var err error
	if w.fsnotify, err = fsnotify.NewWatcher(); err != nil {
		close(w.done)
		return w
	}
	go w.forward()
	return w
}

func (w *watcher) forward() {
	defer close(w.done)
	for {
		select {
		case _, ok := <-w.fsnotify.Events:
			if !ok {
				return
			}
		case _, ok := <-w.fsnotify.Errors:
			// Events were lost: look for oneself.
			if !ok {
				return
			}
		}
		select {
		case w.changed <- struct{}{}:
		default:
		}
	}
}

// add watches a folder. One that cannot be watched is polled like all others.
func (w *watcher) add(folder string) {
	if w.fsnotify != nil {
		_ = w.fsnotify.Add(folder)
	}
}

// settle returns when nothing has happened for a while, false if ctx is done before.
func (w *watcher) settle(ctx context.Context) bool {
	enough := time.NewTimer(patience)
	defer enough.Stop()
	calm := time.NewTimer(quiet)
	defer calm.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-w.changed:
			calm.Reset(quiet)
		case <-calm.C:
			return true
		case <-enough.C:
			return true
		}
	}
}

func (w *watcher) close() {
	if w.fsnotify != nil {
		_ = w.fsnotify.Close()
	}
	<-w.done
}

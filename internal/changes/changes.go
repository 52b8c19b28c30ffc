// Package changes reports changes of folders, and when a series of changes is complete.
//
//	folders := changes.Watch("/etc/usher/policies")
//	defer folders.Close()
//	for range folders.Changed() {
//		if !(changes.Pause{Quiet: 100 * time.Millisecond, Limit: time.Second}).Wait(ctx, folders.Changed()) {
//			return
//		}
//		// Read the folder again.
//	}
//
// A signal means that something may have changed; receivers find out what.
package changes

import (
	"context"
	"time"

	"github.com/fsnotify/fsnotify"
)

// A Pause defines when a series of changes is complete.
type Pause struct {
	// Quiet is how long nothing may change.
	Quiet time.Duration
	// Limit bounds the wait, for what never stops changing.
	Limit time.Duration
}

// Wait receives from changed until the series is complete. It returns false if ctx is done
// before.
func (p Pause) Wait(ctx context.Context, changed <-chan struct{}) bool {
	limit := time.NewTimer(p.Limit)
	defer limit.Stop()
	quiet := time.NewTimer(p.Quiet)
	defer quiet.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-changed:
			quiet.Reset(p.Quiet)
		case <-quiet.C:
			return true
		case <-limit.C:
			return true
		}
	}
}

// Folders signals changes in its folders. Use [Watch]. Add and Close are for one goroutine.
type Folders struct {
	// watcher is nil without folders, and if the system has no more watches to give.
	watcher *fsnotify.Watcher
	changed chan struct{}
	done    chan struct{}
}

// Watch watches folders, not those below them. A folder that cannot be watched gives no
// signal, so callers also look from time to time.
func Watch(folders ...string) *Folders {
	f := &Folders{changed: make(chan struct{}, 1), done: make(chan struct{})}
	for _, folder := range folders {
		f.Add(folder)
	}
	return f
}

// Add watches another folder. Adding one that is watched changes nothing.
func (f *Folders) Add(folder string) {
	if f.watcher == nil {
		watcher, err := fsnotify.NewWatcher()
		if err != nil {
			return
		}
		f.watcher = watcher
		go f.forward()
	}
	_ = f.watcher.Add(folder)
}

func (f *Folders) forward() {
	defer close(f.done)
	for {
		select {
		case _, ok := <-f.watcher.Events:
			if !ok {
				return
			}
		case _, ok := <-f.watcher.Errors:
			// Events were lost.
			if !ok {
				return
			}
		}
		Signal(f.changed)
	}
}

// Changed returns the channel of the signals. Unread signals are merged.
func (f *Folders) Changed() <-chan struct{} { return f.changed }

// Close ends the signals. The channel stays open.
func (f *Folders) Close() {
	if f.watcher != nil {
		_ = f.watcher.Close()
		<-f.done
	}
}

// Signal sends a signal to a channel with a buffer of one, unless the buffer is full.
func Signal(changed chan<- struct{}) {
	select {
	case changed <- struct{}{}:
	default:
	}
}

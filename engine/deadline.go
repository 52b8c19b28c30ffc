package engine

import (
	"context"
	"sync/atomic"
	"time"
)

// A deadline is a context that ends at a time, or with the one it is made of. Unlike one
// of context.WithDeadline it costs next to nothing as long as nobody waits for Done: most
// programs are over long before.
type deadline struct {
	context.Context
	at    time.Time
	timer atomic.Pointer[timer]
}

type timer struct {
	context.Context
	cancel context.CancelFunc
}

func (d *deadline) Deadline() (time.Time, bool) {
	if at, ok := d.Context.Deadline(); ok && at.Before(d.at) {
		return at, true
	}
	return d.at, true
}

func (d *deadline) Done() <-chan struct{} {
	t := d.timer.Load()
	if t == nil {
		ctx, cancel := context.WithDeadline(d.Context, d.at)
		t = &timer{Context: ctx, cancel: cancel}
		if !d.timer.CompareAndSwap(nil, t) {
			cancel()
			t = d.timer.Load()
		}
	}
	return t.Done()
}

func (d *deadline) Err() error {
	if t := d.timer.Load(); t != nil {
		return t.Err()
	}
	if err := d.Context.Err(); err != nil {
		return err
	}
	if time.Now().Before(d.at) {
		return nil
	}
	return context.DeadlineExceeded
}

// release ends the context for those who wait for it.
func (d *deadline) release() {
	if t := d.timer.Load(); t != nil {
		t.cancel()
	}
}

// Package deadline provides a context with a deadline that needs no timer unless Done is used, and sleep
// that a context ends.
package deadline

import (
	"context"
	"sync/atomic"
	"time"
)

// A Context ends at a time, or with its parent. Unlike that of context.WithDeadline it needs no
// timer until Done is called: most work ends long before. It must not be copied after first use.
type Context struct {
	context.Context
	At    time.Time
	timer atomic.Pointer[timer]
}

type timer struct {
	context.Context
	cancel context.CancelFunc
}

// Deadline implements [context.Context].
func (d *Context) Deadline() (time.Time, bool) {
	if at, ok := d.Context.Deadline(); ok && at.Before(d.At) {
		return at, true
	}
	return d.At, true
}

// Done implements [context.Context].
func (d *Context) Done() <-chan struct{} {
	t := d.timer.Load()
	if t == nil {
		ctx, cancel := context.WithDeadline(d.Context, d.At)
		t = &timer{Context: ctx, cancel: cancel}
		if !d.timer.CompareAndSwap(nil, t) {
			cancel()
			t = d.timer.Load()
		}
	}
	return t.Done()
}

// Err implements [context.Context].
func (d *Context) Err() error {
	if t := d.timer.Load(); t != nil {
		return t.Err()
	}
	if err := d.Context.Err(); err != nil {
		return err
	}
	if time.Now().Before(d.At) {
		return nil
	}
	return context.DeadlineExceeded
}

// Release ends the context for goroutines that wait for it.
func (d *Context) Release() {
	if t := d.timer.Load(); t != nil {
		t.cancel()
	}
}

// Package stall gives up work that takes too long, whether or not it looks at its context, and says
// what it was at. It is for commands: the goroutine of such work is left behind.
package stall

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"
)

// grace is how long work may take to return when its context ends.
const grace = 100 * time.Millisecond

// An Error says what took too long.
type Error struct {
	// At is what the work was at last, such as the rule of a policy; empty if it did not say.
	At string
	// Limit is how long it may take.
	Limit time.Duration
}

// Error implements error.
func (e *Error) Error() string {
	if e.At == "" {
		return fmt.Sprintf("it takes longer than %s", e.Limit)
	}
	return fmt.Sprintf("%s: it takes longer than %s", e.At, e.Limit)
}

// Work is what [Within] waits for. A nil Work is not waited for.
type Work struct{ step atomic.Pointer[step] }

type step struct {
	what  fmt.Stringer
	since time.Time
}

type text string

func (t text) String() string { return string(t) }

type key struct{}

// Of returns the work that is done in ctx; nil if nobody waits for it.
func Of(ctx context.Context) *Work {
	w, _ := ctx.Value(key{}).(*Work)
	return w
}

// At says that the work comes to what now, such as the next rule: this has all the time again.
func (w *Work) At(what string) { w.AtNamed(text(what)) }

// AtNamed is At for what is formatted only if it takes too long.
func (w *Work) AtNamed(what fmt.Stringer) {
	if w != nil {
		w.step.Store(&step{what, time.Now()})
	}
}

// Within does work, no part of which may take longer than limit, and returns an [*Error] if one does:
// see [Work.At]. A limit that is not positive is none. If ctx ends before, the error is its cause.
func Within[T any](ctx context.Context, limit time.Duration, work func(context.Context) (T, error)) (T, error) {
	w := &Work{}
	w.At("")
	ctx, cancel := context.WithCancel(context.WithValue(ctx, key{}, w))
	defer cancel()
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		value, err := work(ctx)
		done <- result{value, err}
	}()
	var timer *time.Timer
	var late <-chan time.Time
	if limit > 0 {
		timer = time.NewTimer(limit)
		defer timer.Stop()
		late = timer.C
	}
	for {
		select {
		case r := <-done:
			return r.value, r.err
		case <-ctx.Done():
			select {
			case r := <-done:
				return r.value, r.err
			case <-time.After(grace):
				var none T
				return none, context.Cause(ctx)
			}
		case <-late:
			at := w.step.Load()
			if left := limit - time.Since(at.since); left > 0 {
				timer.Reset(left)
				continue
			}
			var none T
			return none, &Error{At: at.what.String(), Limit: limit}
		}
	}
}

package limit

import (
	"errors"
	"io"
	"net/http"
	"os"
	"sync"
	"time"
)

const (
	// pace is by how many bytes a second a body has to grow. It has no more time than longest
	// altogether: no API server waits longer.
	pace    = 32 << 10
	longest = time.Minute
	// weight is the memory per byte of a body while it is read: buffers grow by doubling.
	weight = 2
)

// A body is the body of a request, and what the request has taken of the limits.
type body struct {
	io.ReadCloser
	limiter *Limiter
	request *http.Request
	control http.ResponseController
	who     caller
	conn    *conn

	begun    time.Time
	received int64
	// expected is how much has to be received until the window ends.
	expected int64
	// discards means that the rest of the body is dropped.
	discards bool

	mu sync.Mutex
	// spent is the memory that the request uses, granted what it may use until it takes more.
	spent, granted int64
	slot, done     bool
	// turn ends the turn of a large request.
	turn func()
	// err is why there will be no more to read.
	err error
}

// Read implements [io.Reader]. At the end of the body it waits for a slot.
func (b *body) Read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	b.hurry()
	n, err := b.ReadCloser.Read(p)
	b.received += int64(n)
	if !b.discards {
		if failed := b.pay(int64(n) * weight); failed != nil {
			b.err = failed
			return n, failed
		}
	}
	switch {
	case err == io.EOF && !b.discards:
		// A deadline that passes while the request is decided would end it.
		_ = b.control.SetReadDeadline(time.Time{})
		b.conn.settle()
		if b.err = b.enter(); b.err == nil {
			b.err = io.EOF
		}
		return n, b.err
	case errors.Is(err, os.ErrDeadlineExceeded):
		b.err = ErrSlow
		return n, b.err
	}
	return n, err
}

// hurry begins a window if the last one has seen enough.
func (b *body) hurry() {
	if b.received < b.expected {
		return
	}
	window := b.limiter.options.Window
	b.expected = b.received + int64(window/time.Second)*pace + 1
	at, last := time.Now().Add(window), b.begun.Add(longest)
	if last.Before(at) {
		at = last
	}
	_ = b.control.SetReadDeadline(at)
}

// pay takes n more bytes of memory.
func (b *body) pay(n int64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.spent += n
	if b.done || b.spent <= b.granted {
		return nil
	}
	missing := (b.spent - b.granted + step - 1) / step * step
	l := b.limiter
	if b.granted+missing > l.bytes.most(b.who) {
		return ErrTooLarge
	}
	if err := b.take(l.bytes, missing, "memory"); err != nil {
		return err
	}
	b.granted += missing
	return nil
}

// take takes n of a pool. The time that it waits is not the caller's.
func (b *body) take(p *pool, n int64, what string) error {
	if p.grab(b.who, n) {
		return nil
	}
	ctx, start := b.request.Context(), time.Now()
	taken := p.take(ctx, b.who, n, b.limiter.options.Turn)
	b.begun = b.begun.Add(time.Since(start))
	switch {
	case taken:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	}
	b.limiter.shed(b.request, what)
	return ErrOverloaded
}

// enter takes a slot.
func (b *body) enter() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := b.limiter
	if l.slots == nil || b.slot || b.done {
		return nil
	}
	err := b.take(l.slots, 1, "slots")
	b.slot = err == nil
	return err
}

// release gives back what the request has taken.
func (b *body) release() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.done = true
	if b.turn != nil {
		b.turn()
	}
	if b.granted > 0 {
		b.limiter.bytes.give(b.who, b.granted)
	}
	if b.slot {
		b.limiter.slots.give(b.who, 1)
	}
}

// Discard reads up to n bytes of a body, which take no memory. A caller that still sends may
// not see an answer.
func Discard(r io.Reader, n int64) {
	if b, ok := r.(*body); ok {
		b.discards, b.err = true, nil
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(r, n))
}

// Pay takes n bytes of memory for the request with this body, until its response is sent. The error
// is [ErrOverloaded] if that much is not available now, and [ErrTooLarge] if it never is. A body
// without limits takes nothing.
func Pay(r io.Reader, n int) error {
	if b, ok := r.(*body); ok {
		return b.pay(int64(n))
	}
	return nil
}

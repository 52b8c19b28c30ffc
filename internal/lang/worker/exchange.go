package worker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
)

// errGivenUp is the error of a request whose caller no longer waits. The worker still has it.
var errGivenUp = errors.New("given up")

const (
	// busy is how many times as long as its processor time a request may take on a busy machine.
	busy = 8
	// looks is how often a watch looks at a request within its limit.
	looks = 8
	// firstLook is when a watch looks at a request for the first time, and so how late it may notice that the caller
	// has gone. Most requests have ended by then.
	firstLook = 5 * time.Millisecond
)

// A watch interrupts the exchange with a process when the request takes too long, or its caller goes away. The
// limit is one of processor time: what is found out must not depend on what else the machine does.
//
// Its timer is not stopped at the end of a request: with many requests, that would take longer than to look at one
// of them every few milliseconds.
type watch struct {
	process *process

	mu    sync.Mutex
	timer *time.Timer
	// next is when the timer fires; zero if it does not.
	next time.Time
	// on says that there is a request.
	on bool
	watched
}

// A watched is what a watch knows of a request.
type watched struct {
	number uint64
	// begin is the CPU time of the process when the request began, limit how much more it may take, and deadline
	// when it ends in any case.
	begin, limit time.Duration
	deadline     time.Time
	// waits has the watch told when the caller no longer waits, until stop is called; nil if the caller does not.
	waits func() (stop func() bool)
	stop  func() bool
	// overstay is called once if the request has used as much CPU time as slice; nil if it may.
	slice    time.Duration
	overstay func()
	// late says that the request was ended, and abandoned that its caller no longer waits.
	late, abandoned bool
}

// begin begins to watch a request.
func (w *watch) begin(r watched) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.on, w.watched = true, r
	if soon := time.Now().Add(min(firstLook, r.limit/looks)); w.next.IsZero() || soon.Before(w.next) {
		w.arm(time.Until(soon))
	}
}

// end ends it. What the watch has interrupted goes on.
func (w *watch) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stop != nil {
		w.stop()
	}
	if w.late || w.abandoned {
		w.process.setDeadlines(time.Time{})
	}
	w.on, w.watched = false, watched{}
}

func (w *watch) arm(in time.Duration) {
	w.next = time.Now().Add(in)
	if w.timer == nil {
		w.timer = time.AfterFunc(in, w.look)
		return
	}
	w.timer.Reset(in)
}

// look ends a request that has taken too long.
func (w *watch) look() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.next = time.Time{}
	if !w.on || w.late {
		return
	}
	if w.waits != nil && w.stop == nil {
		w.stop = w.waits()
	}
	used := w.process.cpu() - w.watched.begin
	if used >= w.limit || !time.Now().Before(w.deadline) {
		w.late = true
		w.process.setDeadlines(time.Unix(1, 0))
		return
	}
	next := w.limit / looks
	if w.overstay != nil {
		// On a busy machine, the request may not have used the processor during that time.
		if left := w.slice - used; left > 0 {
			next = min(next, max(left, time.Millisecond))
		} else {
			w.overstay()
			w.overstay = nil
		}
	}
	w.arm(next)
}

// abandon interrupts the exchange of a request whose caller no longer waits.
func (w *watch) abandon(number uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.on && w.number == number && !w.late {
		w.abandoned = true
		w.process.setDeadlines(time.Unix(1, 0))
	}
}

// goesOn reports whether an interrupted request goes on, without a caller.
func (w *watch) goesOn() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.late {
		return false
	}
	w.process.setDeadlines(time.Time{})
	w.abandoned, w.waits = false, nil
	return true
}

// begin sends a job to the worker of its turn, and returns the CPU time of the worker before.
func (p *Pool) begin(ctx context.Context, t *turn, job *Job, payload []byte) time.Duration {
	p.mu.Lock()
	limit := p.lanes.limit(t.lane, job.Limit)
	p.mu.Unlock()
	w, cpu := t.worker, t.worker.cpu()
	var overstay func()
	if w.priority == normal && p.options.Workers > 1 {
		overstay = func() { p.overstay(w, t) }
	}
	w.begin(ctx, job.Kind, payload, cpu, limit, p.options.Slice, overstay)
	return cpu
}

// finish releases the worker after a job, and returns how much CPU time it has used.
func (p *Pool) finish(t *turn, begin time.Time, cpu time.Duration, last bool, err error) (time.Duration, error) {
	o := outcome{took: time.Since(begin), cpu: t.worker.cpu() - cpu, last: last, err: err}
	if hardly := o.took / 10; errors.Is(err, ErrTimeout) && o.cpu < hardly && (o.cpu < p.options.Slice || t.lane.background) {
		o.err = fmt.Errorf("%w: %w", err, ErrStarved)
	}
	return o.cpu, p.release(t.worker, t, o)
}

// begin begins a request, which may use as much more processor time as limit since the process had used cpu. The
// caller waits until ctx is done. Overstay, unless nil, is called once if it has used as much as slice.
func (p *process) begin(ctx context.Context, of Kind, payload []byte, cpu, limit, slice time.Duration, overstay func()) {
	p.last++
	number := p.last
	p.rest = encodeFrame(frame{id: number, kind: kind(of), payload: payload})
	p.watch.begin(watched{
		number: number, begin: cpu, limit: limit, deadline: time.Now().Add(busy * limit),
		waits: func() func() bool { return context.AfterFunc(ctx, func() { p.watch.abandon(number) }) },
		slice: slice, overstay: overstay,
	})
}

// await returns the answer to the request, and whether the worker must be replaced. If the error is errGivenUp,
// await can be called again; after any other, which is one of this package, the worker is dead.
func (p *process) await() (reply []byte, last bool, err error) {
	f, err := p.exchange()
	if errors.Is(err, os.ErrDeadlineExceeded) {
		if p.watch.goesOn() {
			return nil, false, errGivenUp
		}
		limit := p.watch.limit
		p.watch.end()
		p.kill()
		return nil, true, fmt.Errorf("%w: ended after %s", ErrTimeout, limit)
	}
	p.watch.end()
	switch {
	case err == nil && (f.id != p.last || f.kind != answer && f.kind != lastAnswer):
		err = fmt.Errorf("expected the answer to request %d, not %q to %d", p.last, f.kind, f.id)
	case err == nil:
		return f.payload, f.kind == lastAnswer, nil
	}
	return nil, true, p.bury(err)
}

// exchange sends what is left of the request, and reads the answer. If it was interrupted, it goes on where it was.
func (p *process) exchange() (frame, error) {
	for len(p.rest) > 0 {
		n, err := p.in.Write(p.rest)
		p.rest = p.rest[n:]
		if err != nil {
			return frame{}, err
		}
	}
	p.rest = nil
	return p.answers.next(largestAnswer)
}

// setDeadlines sets when an exchange is interrupted; never if that is zero.
func (p *process) setDeadlines(at time.Time) {
	_ = p.in.SetWriteDeadline(at)
	_ = p.out.SetReadDeadline(at)
}

package overrun

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"time"
)

const (
	// shortTime is the processor time that evaluations take without a turn.
	shortTime = 2 * time.Millisecond
	// turnTime is how long a turn is, if others wait.
	turnTime = 10 * time.Millisecond
	// mostWaiting limits the evaluations of one namespace that wait for turns.
	mostWaiting = 16
)

// ErrBusy is the error of an evaluation that needs a turn while many others of its namespace do.
var ErrBusy = errors.New("takes too long while many other evaluations of policies of its namespace do: not evaluated")

// turns keep evaluations of namespaces' policies that are not short from taking all processors: half of the
// processors take turns among them, the namespaces one after the other.
type turns struct {
	mu sync.Mutex
	// taken is how many have a turn.
	taken int
	// waiting are those without one by namespace, and order the namespaces, the next one first.
	waiting map[string][]*Turn
	order   []string
}

// A Turn is one evaluation among those which take turns. Wait is for its goroutine, the other methods are safe
// for concurrent use.
type Turn struct {
	turns     *turns
	namespace string

	// The rest belongs to turns.mu. begun is when the turn began, zero if it has none.
	begun time.Time
	left  bool
	// next is closed when it has a turn.
	next chan struct{}
}

// Turn returns what the evaluation of a namespace's policies for a request waits with.
func (w *Watch) Turn(namespace string) *Turn { return &Turn{turns: &w.turns, namespace: namespace} }

// Wait waits until the evaluation may go on, which has taken so much processor time, and lets goroutines run
// that are ready: those of requests that take less should not wait until the scheduler interrupts this one. The
// error is [ErrBusy], or that of ctx.
func (t *Turn) Wait(ctx context.Context, taken time.Duration) error {
	if taken < shortTime {
		return nil
	}
	next, err := t.ask(time.Now())
	if next == nil {
		runtime.Gosched()
		return err
	}
	select {
	case <-next:
		return nil
	case <-ctx.Done():
		t.End()
		return context.Cause(ctx)
	}
}

// ask takes a turn, or returns what to wait for.
func (t *Turn) ask(now time.Time) (<-chan struct{}, error) {
	all := t.turns
	all.mu.Lock()
	defer all.mu.Unlock()
	switch had := !t.begun.IsZero(); {
	case t.left:
		return nil, ErrBusy
	case had && (len(all.order) == 0 || now.Sub(t.begun) < turnTime):
		return nil, nil
	case had:
		t.begun = time.Time{}
		all.taken--
	case len(all.waiting[t.namespace]) >= mostWaiting:
		return nil, ErrBusy
	}
	t.next = make(chan struct{})
	if all.waiting == nil {
		all.waiting = map[string][]*Turn{}
	}
	if len(all.waiting[t.namespace]) == 0 {
		all.order = append(all.order, t.namespace)
	}
	all.waiting[t.namespace] = append(all.waiting[t.namespace], t)
	all.give(now)
	return t.next, nil
}

// give gives turns to those who wait, as long as there are any.
func (a *turns) give(now time.Time) {
	for len(a.order) > 0 && a.taken < max(runtime.GOMAXPROCS(0)/2, 1) {
		namespace := a.order[0]
		a.order = a.order[1:]
		t := a.waiting[namespace][0]
		a.drop(namespace, 0)
		if len(a.waiting[namespace]) > 0 {
			a.order = append(a.order, namespace)
		}
		a.taken++
		t.begun = now
		close(t.next)
		t.next = nil
	}
}

func (a *turns) drop(namespace string, i int) {
	if a.waiting[namespace] = slices.Delete(a.waiting[namespace], i, i+1); len(a.waiting[namespace]) == 0 {
		delete(a.waiting, namespace)
	}
}

// End ends the turn, if there is one, when the evaluation does nothing for a while.
func (t *Turn) End() { t.end(false) }

// Leave is End for an evaluation for which nobody waits any more: it gets no other turn.
func (t *Turn) Leave() { t.end(true) }

func (t *Turn) end(left bool) {
	if t == nil {
		return
	}
	all := t.turns
	all.mu.Lock()
	defer all.mu.Unlock()
	t.left = t.left || left
	if t.next != nil {
		all.drop(t.namespace, slices.Index(all.waiting[t.namespace], t))
		if len(all.waiting[t.namespace]) == 0 {
			all.order = slices.DeleteFunc(all.order, func(n string) bool { return n == t.namespace })
		}
		close(t.next)
		t.next = nil
	}
	if !t.begun.IsZero() {
		t.begun = time.Time{}
		all.taken--
		all.give(time.Now())
	}
}

package overrun

import (
	"context"
	"errors"
	"maps"
	"runtime"
	"slices"
	"sync"
	"time"
)

const (
	// shortTime is the processor time that evaluations take without a turn, if the budget of their namespace
	// is not spent.
	shortTime = 2 * time.Millisecond
	// turnTime is how long a turn is, if others wait.
	turnTime = 10 * time.Millisecond
	// mostWaiting limits the evaluations of one namespace that wait for turns.
	mostWaiting = 16
	// atOnce is how much turns of one namespace take before it has to wait, and it may take a part of
	// perProcessor of each processor all the time.
	atOnce       = 500 * time.Millisecond
	perProcessor = 20
)

// ErrBusy is the error of an evaluation that needs a turn while many others of its namespace do.
var ErrBusy = errors.New("takes too long while many other evaluations of policies of its namespace do: not evaluated")

// turns keep evaluations of namespaces' policies that are not short from taking all processors: half of the
// processors take turns among them, the namespaces one after the other, each of which has a budget.
type turns struct {
	mu sync.Mutex
	// taken is how many have a turn.
	taken int
	// budgets are those of namespaces that have had turns lately.
	budgets map[string]*budget
	// later gives turns when there is something in the budget of a namespace again.
	later *time.Timer
	// waiting are those without one by namespace, and order the namespaces, the next one first.
	waiting map[string][]*Turn
	order   []string
}

// A Turn is one evaluation among those which take turns. Wait is for its goroutine, the other methods are safe
// for concurrent use.
type Turn struct {
	turns     *turns
	namespace string

	// The rest belongs to turns.mu. begun is when the turn began, zero if it has none, and counted until when
	// the budget of the namespace knows of it.
	begun, counted time.Time
	left           bool
	// starved says that the time of the evaluation was over while it waited.
	starved bool
	// next is closed when it has a turn.
	next chan struct{}
}

// Turn returns what the evaluation of a namespace's policies for a request waits with.
func (w *Watch) Turn(namespace string) *Turn { return &Turn{turns: &w.turns, namespace: namespace} }

// Wait waits until the evaluation may go on, which has taken so much processor time, and lets goroutines run
// that are ready: those of requests that take less should not wait until the scheduler interrupts this one. The
// error is [ErrBusy], or that of ctx.
func (t *Turn) Wait(ctx context.Context, taken time.Duration) error {
	now := time.Now()
	if taken < shortTime && !t.turns.overdrawn(t.namespace, now) {
		return nil
	}
	next, err := t.ask(now)
	if next == nil {
		runtime.Gosched()
		return err
	}
	select {
	case <-next:
		return nil
	case <-ctx.Done():
		t.End()
		t.turns.mu.Lock()
		t.starved = true
		t.turns.mu.Unlock()
		return context.Cause(ctx)
	}
}

// Starved reports whether the time of the evaluation was over while it waited for others.
func (t *Turn) Starved() bool {
	if t == nil {
		return false
	}
	t.turns.mu.Lock()
	defer t.turns.mu.Unlock()
	return t.starved
}

func (a *turns) overdrawn(namespace string, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.budgets[namespace].wait(now) > 0
}

// ask takes a turn, or returns what to wait for.
func (t *Turn) ask(now time.Time) (<-chan struct{}, error) {
	all := t.turns
	all.mu.Lock()
	defer all.mu.Unlock()
	t.starved = false
	switch had := !t.begun.IsZero(); {
	case t.left:
		return nil, ErrBusy
	case had:
		t.count(now)
		if all.budgets[t.namespace].wait(now) == 0 && (len(all.order) == 0 || now.Sub(t.begun) < turnTime) {
			return nil, nil
		}
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
	var soonest time.Duration
	for i := 0; i < len(a.order) && a.taken < max(runtime.GOMAXPROCS(0)/2, 1); {
		namespace := a.order[i]
		if wait := a.budgets[namespace].wait(now); wait > 0 {
			if i++; soonest == 0 || wait < soonest {
				soonest = wait
			}
			continue
		}
		a.order = slices.Delete(a.order, i, i+1)
		t := a.waiting[namespace][0]
		a.drop(namespace, 0)
		if len(a.waiting[namespace]) > 0 {
			a.order = append(a.order, namespace)
		}
		a.taken++
		t.begun, t.counted = now, now
		close(t.next)
		t.next = nil
	}
	if a.later != nil {
		a.later.Stop()
		a.later = nil
	}
	if soonest > 0 {
		a.later = time.AfterFunc(soonest, func() {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.give(time.Now())
		})
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
		now := time.Now()
		t.count(now)
		t.begun = time.Time{}
		all.taken--
		all.give(now)
	}
}

// count takes from the budget of the namespace how long the turn has lasted.
func (t *Turn) count(now time.Time) {
	all := t.turns
	b := all.budgets[t.namespace]
	if b == nil {
		if all.budgets == nil {
			all.budgets = map[string]*budget{}
		}
		maps.DeleteFunc(all.budgets, func(_ string, b *budget) bool { return b.at(now) == 0 })
		b = &budget{until: now}
		all.budgets[t.namespace] = b
	}
	b.taken, b.until = b.at(now)+now.Sub(t.counted), now
	t.counted = now
}

// A budget is what turns of a namespace have taken until then, and has not come back.
type budget struct {
	taken time.Duration
	until time.Time
}

// at returns what is taken at that time.
func (b *budget) at(now time.Time) time.Duration {
	return max(b.taken-now.Sub(b.until)*time.Duration(runtime.GOMAXPROCS(0))/perProcessor, 0)
}

// wait returns how long it takes until there is enough for a turn, 0 if there is.
func (b *budget) wait(now time.Time) time.Duration {
	if b == nil || b.at(now) < atOnce {
		return 0
	}
	return (b.at(now) - atOnce + turnTime) * perProcessor / time.Duration(runtime.GOMAXPROCS(0))
}

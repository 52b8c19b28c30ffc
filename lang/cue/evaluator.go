package cue

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

var (
	// ErrOverrun is the error of an evaluation that took too long.
	ErrOverrun = errors.New("no answer in time")
	// ErrSuspended is the error of a program that is not run for a while, because it has
	// taken too long repeatedly.
	ErrSuspended = errors.New("suspended")
	// ErrTooLarge is the error of an input that is too large for the evaluator.
	ErrTooLarge = errors.New("input too large")
)

// Limits bound what CUE may take. A zero field means its default.
type Limits struct {
	// Concurrency is how many evaluations run at a time. The default, and the most, is
	// GOMAXPROCS.
	Concurrency int
	// Timeout is how long one evaluation may take, by default 2 s. One that takes longer
	// is given up, and goes on in the background until it ends by itself.
	Timeout time.Duration
	// CompileTimeout is the same for the evaluation without input by which Compile checks
	// a source, by default 2 s.
	CompileTimeout time.Duration

	// Overruns is how many evaluations of one program may take too long, within ten
	// times Suspension, before the program is suspended. The default is 3.
	Overruns int
	// Suspension is for how long, by default 30 s. Then one evaluation is tried; if it
	// takes too long again, the next suspension is twice as long, up to 16 times.
	Suspension time.Duration

	// Values and Bytes bound what one evaluation is given: the values of the JSON tree,
	// containers included (by default 200,000), and the length of its strings and field
	// names together (by default 4 MiB).
	Values, Bytes int
	// Keys bounds how many different field names all evaluations together are given, by
	// default 1,000,000. CUE remembers each for as long as the process lives, in about
	// 120 bytes.
	Keys int
}

func (l Limits) withDefaults() Limits {
	procs := runtime.GOMAXPROCS(0)
	if l.Concurrency <= 0 || l.Concurrency > procs {
		l.Concurrency = procs
	}
	setDefault(&l.Timeout, 2*time.Second)
	setDefault(&l.CompileTimeout, 2*time.Second)
	setDefault(&l.Overruns, 3)
	setDefault(&l.Suspension, 30*time.Second)
	setDefault(&l.Values, 200_000)
	setDefault(&l.Bytes, 4<<20)
	setDefault(&l.Keys, 1_000_000)
	return l
}

func setDefault[T int | time.Duration](field *T, value T) {
	if *field <= 0 {
		*field = value
	}
}

// An Evaluator is where programs run, within limits that they share. It is safe for
// concurrent use.
type Evaluator struct {
	limits Limits
	now    func() time.Time
	// slots holds one entry for each evaluation under way.
	slots chan struct{}
	// strays counts evaluations that were given up, are still running, and no longer
	// hold a slot.
	strays atomic.Int64
	keys   keySet
}

// NewEvaluator returns an evaluator with these limits.
func NewEvaluator(l Limits) *Evaluator {
	l = l.withDefaults()
	return &Evaluator{
		limits: l,
		now:    time.Now,
		slots:  make(chan struct{}, l.Concurrency),
		keys:   newKeySet(l.Keys),
	}
}

// shared is the evaluator of programs that bring none: the field names that CUE
// remembers are the whole process's.
var shared = sync.OnceValue(func() *Evaluator { return NewEvaluator(Limits{}) })

// Strays returns how many evaluations that were given up are still running, apart from
// those that still count as under way.
func (e *Evaluator) Strays() int { return int(e.strays.Load()) }

// Keys returns how many different field names evaluations have been given so far.
func (e *Evaluator) Keys() int { return e.keys.len() }

// longestWait bounds the wait for a slot of callers whose context has no end.
const longestWait = 30 * time.Second

// evaluate runs fn for p, unless p is suspended.
func evaluate[T any](ctx context.Context, p *Program, fn func() (T, error)) (T, error) {
	var zero T
	e := p.evaluator
	trial, err := p.breaker.allow(e.now())
	if err != nil {
		return zero, fmt.Errorf("evaluate cue: %w", err)
	}
	result, took, err := run(ctx, e, e.limits.Timeout, fn)
	p.breaker.report(e.now(), e.limits, trial, verdictOf(err, took, e.limits.Timeout))
	if err != nil {
		return zero, fmt.Errorf("evaluate cue: %w", err)
	}
	return result, nil
}

// verdictOf tells what an evaluation says of its program. One that its caller cut short
// speaks against it only if it had a fair share of the time; a caller that went away
// says nothing.
func verdictOf(err error, took, limit time.Duration) verdict {
	switch {
	case errors.Is(err, ErrOverrun):
		return overran
	case took == 0, errors.Is(err, context.Canceled):
		return unknown
	case errors.Is(err, context.DeadlineExceeded):
		if took >= limit/4 {
			return overran
		}
		return unknown
	}
	return answered
}

// run calls fn in a goroutine of its own once a slot is free, and returns what it
// returned and how long it took; 0 means that it never began. When fn is not done
// within limit, or before ctx is, it is given up.
func run[T any](ctx context.Context, e *Evaluator, limit time.Duration, fn func() (T, error)) (T, time.Duration, error) {
	var zero T
	if err := e.acquire(ctx); err != nil {
		return zero, 0, err
	}
	type answer struct {
		value T
		err   error
	}
	answers := make(chan answer, 1)
	place := &place{evaluator: e}
	start := time.Now()
	go func() {
		defer place.leave()
		var a answer
		defer func() { answers <- a }()
		defer func() {
			if r := recover(); r != nil {
				a = answer{err: fmt.Errorf("the evaluator panicked: %v", r)}
			}
		}()
		a.value, a.err = fn()
	}()

	timer := time.NewTimer(limit)
	defer timer.Stop()
	var err error
	select {
	case a := <-answers:
		return a.value, max(time.Since(start), 1), a.err
	case <-timer.C:
		err = fmt.Errorf("%w: given up after %s", ErrOverrun, limit)
	case <-ctx.Done():
		err = fmt.Errorf("given up: %w", ended(ctx))
	}
	place.giveUp()
	return zero, max(time.Since(start), 1), err
}

func (e *Evaluator) acquire(ctx context.Context) error {
	if ctx.Err() != nil {
		return ended(ctx)
	}
	select {
	case e.slots <- struct{}{}:
		return nil
	default:
	}
	timer := time.NewTimer(longestWait)
	defer timer.Stop()
	select {
	case e.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for one of %d evaluations to end: %w", cap(e.slots), ended(ctx))
	case <-timer.C:
		return fmt.Errorf("wait for one of %d evaluations to end: %w", cap(e.slots), context.DeadlineExceeded)
	}
}

// ended returns why ctx is done, as its error and as the cause that it was given.
func ended(ctx context.Context) error {
	if cause := context.Cause(ctx); !errors.Is(cause, ctx.Err()) {
		return fmt.Errorf("%w: %w", ctx.Err(), cause)
	}
	return ctx.Err()
}

// A place is what one evaluation holds: a slot, or after it was given up a stray's
// place, of which there are twice as many. When those are taken it keeps its slot:
// what cannot be stopped must not become ever more.
type place struct {
	evaluator *Evaluator
	mu        sync.Mutex
	left      bool
	stray     bool
}

func (p *place) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left = true
	if p.stray {
		p.evaluator.strays.Add(-1)
		return
	}
	<-p.evaluator.slots
}

func (p *place) giveUp() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.left {
		return
	}
	e := p.evaluator
	if e.strays.Add(1) > int64(2*cap(e.slots)) {
		e.strays.Add(-1)
		return
	}
	p.stray = true
	<-e.slots
}

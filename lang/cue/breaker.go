package cue

import (
	"fmt"
	"sync"
	"time"
)

// A verdict is what one evaluation says of its program.
type verdict int

const (
	unknown verdict = iota
	answered
	overran
)

// A breaker suspends a program that takes too long repeatedly. The zero breaker lets
// it run.
//
// Answers in between do not count in a program's favour: which object makes it take
// long may be up to whoever sends the object.
type breaker struct {
	mu sync.Mutex
	// overruns is how many evaluations took too long since since.
	overruns int
	since    time.Time
	// until is when the suspension ends, zero if there is none, and period how long it
	// was made.
	until  time.Time
	period time.Duration
	// trying says that the one evaluation that may end the suspension is under way.
	trying bool
}

// patience is for how many suspension periods an overrun counts.
const patience = 10

// allow returns ErrSuspended with what to expect, or nil and whether this is the
// evaluation that decides whether a suspension ends.
func (b *breaker) allow(now time.Time) (trial bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.until.IsZero() {
		return false, nil
	}
	if wait := b.until.Sub(now); wait > 0 {
		return false, fmt.Errorf("%w after %d evaluations that took too long; tried again in %s",
			ErrSuspended, b.overruns, wait.Round(time.Second))
	}
	if b.trying {
		return false, fmt.Errorf("%w after %d evaluations that took too long; being tried again now",
			ErrSuspended, b.overruns)
	}
	b.trying = true
	return true, nil
}

// report tells how an evaluation that allow has let run ended.
func (b *breaker) report(now time.Time, l Limits, trial bool, v verdict) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if trial {
		b.trying = false
		switch v {
		case answered:
			b.overruns, b.until, b.period = 0, time.Time{}, 0
		case overran:
			b.overruns++
			b.suspend(now, l)
		case unknown:
		}
		return
	}
	if v != overran || !b.until.IsZero() {
		return
	}
	if now.Sub(b.since) > patience*l.Suspension {
		b.overruns, b.since = 0, now
	}
	if b.overruns++; b.overruns >= l.Overruns {
		b.suspend(now, l)
	}
}

func (b *breaker) suspend(now time.Time, l Limits) {
	b.period = min(max(2*b.period, l.Suspension), 16*l.Suspension)
	b.until = now.Add(b.period)
}

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

// A breaker suspends a program that overruns its limits repeatedly: first for whoever writes the
// objects on which it does, and only when these are several, for all. The zero breaker lets it run.
//
// Answers in between do not count in a program's favour: which object makes it take
// long may be up to whoever sends the object.
type breaker struct {
	mu      sync.Mutex
	all     suspension
	writers map[string]*suspension
}

// A suspension is of one program, for all or for one writer.
type suspension struct {
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

const (
	// overrunPeriods is for how many suspension periods an overrun counts.
	overrunPeriods = 10
	// mostWriters is of how many writers overruns are counted apart.
	mostWriters = 256
)

// A trial is the suspension that an evaluation may end, nil if it is no trial.
type trial = *suspension

// allow returns ErrSuspended with what to expect, or nil and whether this is the
// evaluation that decides whether a suspension ends.
func (b *breaker) allow(now time.Time, writer string) (trial, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t, err := b.all.allow(now)
	if t != nil || err != nil {
		return t, err
	}
	if own := b.writers[writer]; own != nil {
		t, err := own.allow(now)
		if err != nil {
			return nil, fmt.Errorf("%w, for objects that %s writes", err, writerName(writer))
		}
		return t, nil
	}
	return nil, nil
}

func (s *suspension) allow(now time.Time) (trial, error) {
	if s.until.IsZero() {
		return nil, nil
	}
	if wait := s.until.Sub(now); wait > 0 {
		return nil, fmt.Errorf("%w after %d evaluations that took too much; tried again in %s",
			ErrSuspended, s.overruns, wait.Round(time.Second))
	}
	if s.trying {
		return nil, fmt.Errorf("%w after %d evaluations that took too much; being tried again now",
			ErrSuspended, s.overruns)
	}
	s.trying = true
	return s, nil
}

// report tells how an evaluation that allow has let run ended.
func (b *breaker) report(now time.Time, l Limits, writer string, t trial, v verdict) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if t != nil {
		t.trying = false
		switch v {
		case answered:
			*t = suspension{}
		case overran:
			t.overruns++
			t.suspend(now, l)
		case unknown:
		}
		return
	}
	if v != overran {
		return
	}
	own := b.of(now, l, writer)
	if own == &b.all || own.overrun(now, l) {
		b.all.overrun(now, l)
	}
}

// of returns the suspension of a writer, or of all if there are too many writers.
func (b *breaker) of(now time.Time, l Limits, writer string) *suspension {
	if own := b.writers[writer]; own != nil {
		return own
	}
	if b.writers == nil {
		b.writers = map[string]*suspension{}
	}
	if len(b.writers) >= mostWriters {
		for name, s := range b.writers {
			if !s.trying && now.After(s.until) && now.Sub(s.since) > overrunPeriods*l.Suspension {
				delete(b.writers, name)
			}
		}
	}
	if len(b.writers) >= mostWriters {
		return &b.all
	}
	b.writers[writer] = &suspension{}
	return b.writers[writer]
}

// overrun counts one, and reports whether that begins a suspension.
func (s *suspension) overrun(now time.Time, l Limits) bool {
	if !s.until.IsZero() {
		return false
	}
	if now.Sub(s.since) > overrunPeriods*l.Suspension {
		s.overruns, s.since = 0, now
	}
	if s.overruns++; s.overruns < l.Overruns {
		return false
	}
	s.suspend(now, l)
	return true
}

func (s *suspension) suspend(now time.Time, l Limits) {
	s.period = min(max(2*s.period, l.Suspension), 16*l.Suspension)
	s.until = now.Add(s.period)
}

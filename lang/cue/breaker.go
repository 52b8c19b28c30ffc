package cue

import (
	"fmt"
	"sync"
	"time"
)

// A verdict is what one evaluation shows about its program.
type verdict int

const (
	unknown verdict = iota
	answered
	overran
)

// A breaker suspends a program that exceeds its limits repeatedly, for the writers of the objects
// on which it does. It is never suspended for others: slow evaluations wait in the queue of their
// own tenant (see [worker.Pool]). The zero breaker never suspends.
//
// Successful evaluations in between do not end a suspension: the sender of an object may control
// which object takes long.
type breaker struct {
	mu      sync.Mutex
	writers map[string]*suspension
}

// A suspension is of one program, for one writer.
type suspension struct {
	// overruns is how many evaluations took too long since since.
	overruns int
	since    time.Time
	// until is when the suspension ends, zero if there is none, and period how long it
	// was made.
	until  time.Time
	period time.Duration
	// trying means that the one evaluation that can end the suspension is running.
	trying bool
}

const (
	// overrunPeriods is for how many suspension periods an overrun is remembered.
	overrunPeriods = 10
	// mostWriters limits the writers whose overruns are counted separately.
	mostWriters = 256
)

// Trial is the suspension that an evaluation may end, nil for other evaluations.
type trial = *suspension

// allow returns ErrSuspended with what to expect, or nil and whether this is the
// evaluation that decides whether a suspension ends.
func (b *breaker) allow(now time.Time, writer string) (trial, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	own := b.writers[writer]
	if own == nil {
		return nil, nil
	}
	t, err := own.allow(now)
	if err != nil && writer != "" {
		return nil, fmt.Errorf("%w, for objects that %s writes", err, writerName(writer))
	}
	return t, err
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

// report records how an evaluation that allow permitted ended.
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
	if v == overran {
		b.of(now, l, writer).overrun(now, l)
	}
}

// of returns the suspension of a writer. If there are too many writers, that of another one ends.
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
	for name, s := range b.writers {
		if len(b.writers) < mostWriters {
			break
		}
		if !s.trying {
			delete(b.writers, name)
		}
	}
	b.writers[writer] = &suspension{}
	return b.writers[writer]
}

// overrun counts one, which may start a suspension.
func (s *suspension) overrun(now time.Time, l Limits) {
	if !s.until.IsZero() {
		return
	}
	if now.Sub(s.since) > overrunPeriods*l.Suspension {
		s.overruns, s.since = 0, now
	}
	if s.overruns++; s.overruns >= l.Overruns {
		s.suspend(now, l)
	}
}

func (s *suspension) suspend(now time.Time, l Limits) {
	s.period = min(max(2*s.period, l.Suspension), 16*l.Suspension)
	s.until = now.Add(s.period)
}

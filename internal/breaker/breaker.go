// Package breaker suspends programs that take too long, for those who write the objects on which they
// do: an object that makes a policy slow costs its sender, and nobody else loses the policy.
package breaker

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
)

// ErrSuspended is the error of a program that is not run for a while, because it has overrun its limits.
var ErrSuspended = errors.New("suspended")

// Limits say when a program is suspended, and for how long.
type Limits struct {
	// Overruns is how many evaluations on the objects of one writer may overrun, within ten times
	// Suspension, before the program is suspended for this writer.
	Overruns int
	// Suspension is for how long. Then one evaluation is tried; if it overruns again, the next
	// suspension is twice as long, up to 16 times.
	Suspension time.Duration
}

// A Verdict is what one evaluation shows about its program.
type Verdict int

// The verdicts.
const (
	Unknown Verdict = iota
	Answered
	Overran
)

// A Breaker suspends a program that exceeds its limits repeatedly, for the writers of the objects
// on which it does. It is never suspended for others. The zero Breaker is ready to use, and safe for
// concurrent use.
//
// Successful evaluations in between do not end a suspension: the sender of an object may control
// which object takes long.
type Breaker struct {
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

// A Retry is the suspension that an evaluation may end, nil for other evaluations.
type Retry = *suspension

// Writer names who writes an object: the user, in the namespace of the object, since the controllers of
// a cluster write in all of them.
func Writer(user, namespace string) string { return user + "\x00" + namespace }

// writerName writes what Writer returns for a reader.
func writerName(writer string) string {
	user, namespace, _ := strings.Cut(writer, "\x00")
	if namespace == "" {
		return user
	}
	return user + " in " + namespace
}

// Allow returns ErrSuspended with what to expect, or nil and whether this is the
// evaluation that decides whether a suspension ends. Report is then called once.
func (b *Breaker) Allow(now time.Time, writer string) (Retry, error) {
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

func (s *suspension) allow(now time.Time) (Retry, error) {
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

// Report records how an evaluation that Allow permitted ended.
func (b *Breaker) Report(now time.Time, l Limits, writer string, t Retry, v Verdict) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if t != nil {
		t.trying = false
		switch v {
		case Answered:
			*t = suspension{}
		case Overran:
			t.overruns++
			t.suspend(now, l)
		case Unknown:
		}
		return
	}
	if v == Overran {
		b.of(now, l, writer).overrun(now, l)
	}
}

// of returns the suspension of a writer. If there are too many writers, that of another one ends.
func (b *Breaker) of(now time.Time, l Limits, writer string) *suspension {
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

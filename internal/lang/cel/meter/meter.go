// Package meter bounds what the evaluation of CEL expressions takes, before it takes it.
//
// A meter has an allowance of processor time and of memory, both of which are estimated: of each call
// before it is made, from the measures of its arguments. What does not fit is not done. The estimates are
// meant to be too high rather than too low, and the same for the same values.
package meter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/usher-dev/usher/internal/rule/allowance"
)

// A Meter is what the evaluations of one policy for one request may still take. The zero Meter has an
// allowance of its own, that of a policy of the cluster. It is not safe for concurrent use.
type Meter struct {
	// Context ends evaluations; nil never does.
	Context context.Context //nolint:containedctx // a Meter is as short-lived as a call
	// Allowance is that of the programs which share it; nil is one of its own, for Time and Memory.
	Allowance *allowance.Allowance
	// Time and Memory are what a policy of the cluster may take if they are 0.
	Time   time.Duration
	Memory int64

	// nanos and bytes are left of what was taken from the allowance.
	nanos, bytes int64
	// drawn is what was taken of time in all, and end how much that may become; 0 is without limit.
	drawn, end int64
	// limit is how much of that the innermost call of Within may take.
	limit int64
	// aside is what was spent apart.
	aside amount
	// held is what was taken of memory in all.
	held int64
	// iterations counts those of the loops of cel-go.
	iterations int
}

const (
	// nanosAtOnce and bytesAtOnce are what a meter takes from its allowance at once. After that it asks its
	// context whether to stop.
	nanosAtOnce = int64(500 * time.Microsecond)
	bytesAtOnce = 64 << 10
	// largestCall is the memory that one call may take.
	largestCall = 128 << 20
	// iterationNanos is what an iteration of a loop of cel-go takes.
	iterationNanos = 500
	// iterationsAtOnce is after how many of them others may go on: some take much longer.
	iterationsAtOnce = 32
)

// Stopped is what a meter panics with. Its cause is an [*allowance.ExceededError], or that of the context.
type Stopped struct{ Cause error }

func (s *Stopped) Error() string { return s.Cause.Error() }

// Unwrap returns the cause.
func (s *Stopped) Unwrap() error { return s.Cause }

// IsStopped reports whether an evaluation has ended because of its meter.
func IsStopped(err error) bool {
	_, is := errors.AsType[*Stopped](err)
	return is
}

// Spend takes an estimate of nanoseconds. It panics with [*Stopped] if they are not left, or if the
// context is done.
func (m *Meter) Spend(nanos int64) {
	if m.nanos -= nanos; m.nanos < 0 {
		m.draw(nanos)
	}
}

// Take takes bytes of memory, and the time of allocating them. It panics as Spend does.
func (m *Meter) Take(bytes int64) {
	if m.bytes -= bytes; m.bytes < 0 {
		m.draw(0)
	}
	m.Spend(bytes / 4)
}

// Call takes what one call takes, which cannot be stopped. It panics as Spend does.
func (m *Meter) Call(nanos, bytes int64) {
	if bytes > largestCall {
		panic(&Stopped{&allowance.ExceededError{Memory: true, Call: true, Needed: bytes, Allowed: largestCall}})
	}
	if longest := longestCall(m.Allowance); nanos > longest {
		panic(&Stopped{&allowance.ExceededError{Call: true, Needed: nanos, Allowed: longest}})
	}
	m.Take(bytes)
	m.Spend(nanos)
}

func longestCall(a *allowance.Allowance) int64 {
	if a == nil {
		return int64(allowance.PolicyCall)
	}
	return int64(a.Call())
}

// Refuse ends the evaluation with an error: what comes next takes too much, however much is left.
func (m *Meter) Refuse(err error) { panic(&Stopped{err}) }

// draw takes more from the allowance.
func (m *Meter) draw(nanos int64) {
	if m.Allowance == nil && m.drawn == 0 {
		// Most evaluations need no more than this, and no allowance.
		m.nanos, m.bytes, m.drawn, m.held = m.nanos+nanosAtOnce, m.bytes+bytesAtOnce, nanosAtOnce, bytesAtOnce
		if m.nanos >= 0 && m.bytes >= 0 {
			return
		}
	}
	if m.Context != nil && m.Context.Err() != nil {
		panic(&Stopped{fmt.Errorf("operation interrupted: %w", context.Cause(m.Context))})
	}
	needNanos, needBytes := max(-m.nanos, 0), max(-m.bytes, 0)
	if m.end > 0 && m.drawn+needNanos > m.end {
		panic(&Stopped{&allowance.ExceededError{Needed: m.drawn + max(needNanos, nanos) - m.end + m.limit, Allowed: m.limit}})
	}
	if needNanos > 0 {
		needNanos += nanosAtOnce
	}
	if needBytes > 0 {
		needBytes += bytesAtOnce
	}
	if m.Allowance == nil {
		m.Allowance = allowance.New(cmp.Or(m.Time, allowance.PolicyTime), cmp.Or(m.Memory, allowance.PolicyMemory))
		m.take(m.drawn, m.held)
	}
	m.take(needNanos, needBytes)
	m.wait()
	m.drawn += needNanos
	m.nanos += needNanos
	m.bytes += needBytes
	m.held += needBytes
}

// wait waits until the allowance lets the evaluation go on.
func (m *Meter) wait() {
	if m.Context == nil {
		return
	}
	if err := m.Allowance.Wait(m.Context); err != nil {
		if m.Context.Err() != nil {
			err = fmt.Errorf("operation interrupted: %w", err)
		}
		m.nanos, m.bytes = 0, 0
		panic(&Stopped{err})
	}
}

// Turn waits until the allowance lets go on what is not short, and takes nothing. The error is that of
// [allowance.Pace].
func (m *Meter) Turn() error {
	if m.Context == nil || m.Allowance == nil {
		return nil
	}
	if err := m.Allowance.WaitLong(m.Context); err != nil {
		return fmt.Errorf("operation interrupted: %w", err)
	}
	return nil
}

// take takes from the allowance.
func (m *Meter) take(nanos, bytes int64) {
	if err := m.Allowance.Take(time.Duration(nanos), bytes); err != nil {
		m.nanos, m.bytes = 0, 0
		panic(&Stopped{err})
	}
}

// Within calls f, which may take at most limit, and returns how much time and memory it has taken.
func (m *Meter) Within(limit time.Duration, f func()) (time.Duration, int64) {
	before, end, outer := m.spent(), m.end, m.limit
	m.limit = int64(limit)
	m.end = m.drawn - m.nanos + m.limit
	defer func() { m.end, m.limit = end, outer }()
	f()
	after := m.spent()
	return time.Duration(after.nanos - before.nanos), after.bytes - before.bytes
}

// Shorten takes time from what the call of Within around may take, and not from the allowance.
func (m *Meter) Shorten(by time.Duration) {
	if m.end == 0 {
		return
	}
	if m.end -= int64(by); m.drawn-m.nanos > m.end {
		panic(&Stopped{&allowance.ExceededError{Needed: m.drawn - m.nanos - m.end + m.limit, Allowed: m.limit}})
	}
}

// Apart has what is spent until the returned function is called not count for the call of Within around it.
func (m *Meter) Apart() (end func()) {
	before, aside, outer, limit := m.gross(), m.aside, m.end, m.limit
	m.end = 0
	return func() {
		after := m.gross()
		took := amount{after.nanos - before.nanos, after.bytes - before.bytes}
		m.aside = amount{aside.nanos + took.nanos, aside.bytes + took.bytes}
		if m.end, m.limit = outer, limit; outer > 0 {
			m.end += took.nanos
		}
	}
}

// An amount is of time and of memory.
type amount struct{ nanos, bytes int64 }

// gross is what was spent in all, and spent is that without what was spent apart.
func (m *Meter) gross() amount { return amount{m.drawn - m.nanos, m.held - m.bytes} }

func (m *Meter) spent() amount {
	gross := m.gross()
	return amount{gross.nanos - m.aside.nanos, gross.bytes - m.aside.bytes}
}

// Try calls f, and returns the error with which the meter has ended it.
func (m *Meter) Try(f func()) (err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case *Stopped:
			err = r
		default:
			panic(r)
		}
	}()
	f()
	return nil
}

// ResolveName resolves the name by which the loops of cel-go ask whether to stop. Activations have it resolve
// names that they do not know.
func (m *Meter) ResolveName(name string) (any, bool) {
	if name == "#interrupted" {
		m.Spend(iterationNanos)
		if m.iterations++; m.iterations%iterationsAtOnce == 0 && m.Allowance != nil {
			m.wait()
		}
	}
	return nil, false
}

// Release gives back what was not used, so that the meter can be dropped.
func (m *Meter) Release() {
	if m.Allowance != nil && (m.nanos > 0 || m.bytes > 0) {
		m.Allowance.Return(time.Duration(max(m.nanos, 0)), max(m.bytes, 0))
	}
	*m = Meter{}
}

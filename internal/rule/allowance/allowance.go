// Package allowance bounds the processor time and the memory of programs.
package allowance

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"
)

// An Allowance is what programs may take for one request together: processor time, and memory that they
// allocate. Both are estimates that programs make before they do something, so that the same request
// always takes the same. It is safe for concurrent use.
type Allowance struct {
	time, memory                atomic.Int64
	maxTime, maxMemory, maxCall int64
	pace                        Pace
	explaining                  bool
}

// A Pace has programs that are not short wait for others. It returns when the programs of an allowance may go
// on, which have taken so much, or an error.
type Pace interface {
	Wait(ctx context.Context, taken time.Duration) error
}

// The limits of an [Allowance]. An evaluation of a policy of the cluster has one of its own; the policies of
// a namespace have one together. One call of a function cannot be stopped, and nobody else has the processor
// meanwhile.
const (
	PolicyTime      = 10 * time.Second
	PolicyMemory    = 512 << 20
	PolicyCall      = 250 * time.Millisecond
	NamespaceTime   = time.Second
	NamespaceMemory = 32 << 20
	NamespaceCall   = 10 * time.Millisecond
)

// New returns an allowance for that much time, and that many bytes.
func New(limit time.Duration, memory int64) *Allowance {
	return &Allowance{maxTime: int64(limit), maxMemory: memory, maxCall: int64(PolicyCall)}
}

// Namespace returns what the policies of a namespace may take together, at a pace.
func Namespace(p Pace) *Allowance {
	a := New(NamespaceTime, NamespaceMemory)
	a.pace, a.maxCall = p, int64(NamespaceCall)
	return a
}

// Explaining returns what an explanation may take.
func Explaining(limit time.Duration, memory int64) *Allowance {
	a := New(limit, memory)
	a.explaining = true
	return a
}

// Memory returns how much memory was taken.
func (a *Allowance) Memory() int64 { return a.memory.Load() }

// Drop has no more memory taken than was before: what has exceeded the allowance since is not kept.
func (a *Allowance) Drop(before int64) { a.memory.Store(before) }

// Call returns how long one call may take.
func (a *Allowance) Call() time.Duration { return time.Duration(a.maxCall) }

// Wait returns when programs may go on, or an error.
func (a *Allowance) Wait(ctx context.Context) error { return a.wait(ctx, time.Duration(a.time.Load())) }

// WaitLong is Wait before something that is not short, of which nothing is taken.
func (a *Allowance) WaitLong(ctx context.Context) error { return a.wait(ctx, time.Duration(a.maxTime)) }

func (a *Allowance) wait(ctx context.Context, taken time.Duration) error {
	if a.pace == nil {
		return nil
	}
	return a.pace.Wait(ctx, taken)
}

// Take takes time and bytes. The error is an [*ExceededError] if there is not so much left of one of them;
// then there is nothing left for the programs after that, either.
func (a *Allowance) Take(estimate time.Duration, memory int64) error {
	// What is refused stays taken, so that nothing else fits.
	if taken := a.memory.Add(memory); taken > a.maxMemory || taken < 0 {
		a.memory.Store(a.maxMemory + 1)
		return &ExceededError{Memory: true, Explaining: a.explaining, Needed: max(taken, memory), Allowed: a.maxMemory}
	}
	if taken := a.time.Add(int64(estimate)); taken > a.maxTime || taken < 0 {
		a.time.Store(a.maxTime + 1)
		return &ExceededError{Explaining: a.explaining, Needed: max(taken, int64(estimate)), Allowed: a.maxTime}
	}
	return nil
}

// Return gives back what was taken and not used.
func (a *Allowance) Return(estimate time.Duration, memory int64) {
	a.time.Add(-int64(estimate))
	a.memory.Add(-memory)
}

// An ExceededError is the error of a program that would take more than it may.
type ExceededError struct {
	// Memory says that Needed and Allowed are bytes; otherwise they are nanoseconds.
	Memory bool
	// Call says that they are those of one call, not of all that is done for a request.
	Call bool
	// Explaining says that they are those of an explanation, which evaluates again and keeps values.
	Explaining      bool
	Needed, Allowed int64
}

func (e *ExceededError) Error() string {
	of := "a request"
	switch {
	case e.Call:
		of = "one call"
	case e.Explaining:
		of = "an explanation"
	}
	if e.Memory {
		return fmt.Sprintf("takes too much memory: it needs at least %s, and %s may use %s", size(e.Needed), of, size(e.Allowed))
	}
	return fmt.Sprintf("takes too long: it needs at least %v of processor time, and %s may use %v", duration(e.Needed), of, duration(e.Allowed))
}

// duration rounds nanoseconds to what is worth knowing.
func duration(n int64) time.Duration {
	d := time.Duration(n)
	if d >= time.Second {
		return d.Round(100 * time.Millisecond)
	}
	return d.Round(100 * time.Microsecond)
}

// size is a number of bytes for people.
func size(n int64) string {
	const step = 1 << 10
	value, unit := float64(n), "bytes"
	for _, next := range []string{"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"} {
		if value < step {
			break
		}
		value, unit = value/step, next
	}
	if unit == "bytes" {
		return fmt.Sprintf("%d bytes", n)
	}
	return fmt.Sprintf("%.4g %s", value, unit)
}

package queue

import (
	"sync"
	"time"
)

const (
	// slice is for how long a goroutine works before it may have to sleep.
	slice = time.Millisecond
	// most is how much of the time that one step has taken is counted: the rest was waiting.
	most = 50 * time.Millisecond
)

// A Limiter limits how many cores goroutines use together. It is safe for concurrent use.
type Limiter struct {
	cores float64

	mu sync.Mutex
	// free is when what was used is paid for.
	free time.Time
	used time.Duration
}

// NewLimiter returns a Limiter that allows so many cores on average.
func NewLimiter(cores float64) *Limiter { return &Limiter{cores: cores} }

// Used returns the time that was spent so far.
func (l *Limiter) Used() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.used
}

// A Share is the part of a [Limiter] that one goroutine uses.
type Share struct {
	limiter *Limiter
	owed    time.Duration
}

// Share returns a share for a goroutine.
func (l *Limiter) Share() *Share { return &Share{limiter: l} }

// Spend counts CPU time, and sleeps as long as the limit requires.
func (s *Share) Spend(took time.Duration) {
	if s.owed += min(took, most); s.owed < slice {
		return
	}
	wait := s.limiter.charge(s.owed)
	s.owed = 0
	if wait > 0 {
		time.Sleep(wait)
	}
}

// charge returns how long to wait before going on.
func (l *Limiter) charge(took time.Duration) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	l.used += took
	if l.free.Before(now) {
		l.free = now
	}
	l.free = l.free.Add(time.Duration(float64(took) / l.cores))
	// What was used passed already.
	return l.free.Sub(now) - took
}

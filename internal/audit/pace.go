package audit

import (
	"sync"
	"time"
)

const (
	// slice is for how long one goes on before others have their turn.
	slice = time.Millisecond
	// most is how much of what something took is counted: the rest was waiting.
	most = 50 * time.Millisecond
)

// A pacer limits how many cores are used together.
type pacer struct {
	cores float64

	mu sync.Mutex
	// free is when what was used is paid for.
	free time.Time
	// used is what was used so far.
	used time.Duration
}

func (p *pacer) total() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.used
}

// A pace is the part of one goroutine.
type pace struct {
	pacer *pacer
	owed  time.Duration
}

// spend counts time of a processor, and sleeps as long as the bound requires.
func (p *pace) spend(took time.Duration) {
	if p.owed += min(took, most); p.owed < slice {
		return
	}
	wait := p.pacer.charge(p.owed)
	p.owed = 0
	if wait > 0 {
		time.Sleep(wait)
	}
}

// charge returns how long to wait before going on.
func (p *pacer) charge(took time.Duration) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.used += took
	if p.free.Before(now) {
		p.free = now
	}
	p.free = p.free.Add(time.Duration(float64(took) / p.cores))
	// What was used passed already.
	return p.free.Sub(now) - took
}

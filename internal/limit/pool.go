package limit

import (
	"context"
	"slices"
	"sync"
	"time"
)

// A caller is who sent a request, as far as limits go.
type caller struct {
	proven bool
	// address is the remote IP address.
	address string
}

// A pool is a number of bytes or slots that requests take and release.
//
// Authenticated callers may take all of it. Others may take only what is shared, and one address at
// most twice what it leaves to all others. So one address holds at most two thirds, and two at most
// four fifths: there is always something left for the next.
type pool struct {
	total, shared int64
	// unit is the least that is taken at a time.
	unit int64
	// places limits the requests that wait; nil means that none waits.
	places *pool

	mu             sync.Mutex
	used, unproven int64
	// by is what each address holds of unproven.
	by map[string]int64
	// waiting are the requests that wait, in the order in which they came, and turns the
	// turn of each address that holds something or waits when it was last served.
	waiting []*waiter
	turns   map[string]int64
	turn    int64
}

// A waiter is a request that waits for n.
type waiter struct {
	who     caller
	n       int64
	granted chan struct{}
	served  bool
}

func newPool(total, shared, unit int64, places *pool) *pool {
	return &pool{total: total, shared: shared, unit: unit, places: places, by: map[string]int64{}, turns: map[string]int64{}}
}

// most is what one request of a caller can hold if it is alone.
func (p *pool) most(who caller) int64 {
	if who.proven {
		return p.total
	}
	return max(p.shared*2/3, min(p.shared, p.unit))
}

// grab takes n if that is there now. It reports whether it did.
func (p *pool) grab(who caller, n int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.fits(who, n) {
		return false
	}
	p.grant(who, n)
	return true
}

// take takes n, and waits up to a timeout for it. It reports whether it succeeded.
func (p *pool) take(ctx context.Context, who caller, n int64, timeout time.Duration) bool {
	p.mu.Lock()
	if p.fits(who, n) {
		p.grant(who, n)
		p.mu.Unlock()
		return true
	}
	if timeout <= 0 || p.places == nil || !p.places.take(ctx, who, 1, 0) {
		p.mu.Unlock()
		return false
	}
	w := &waiter{who: who, n: n, granted: make(chan struct{})}
	p.waiting = append(p.waiting, w)
	p.mu.Unlock()
	defer p.places.give(who, 1)
	return p.wait(ctx, w, timeout)
}

func (p *pool) wait(ctx context.Context, w *waiter, timeout time.Duration) bool {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-w.granted:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if w.served {
		return true
	}
	p.waiting = slices.DeleteFunc(p.waiting, func(other *waiter) bool { return other == w })
	p.forget(w.who)
	return false
}

// hold takes n if half of all is left then. It reports whether it did.
func (p *pool) hold(n int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.used+n > p.total/2 {
		return false
	}
	p.used += n
	return true
}

// give returns what take took.
func (p *pool) give(who caller, n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.used -= n
	if !who.proven {
		p.unproven -= n
		p.by[who.address] -= n
		p.forget(who)
	}
	for w := p.next(); w != nil; w = p.next() {
		p.waiting = slices.DeleteFunc(p.waiting, func(other *waiter) bool { return other == w })
		p.grant(w.who, w.n)
		w.served = true
		close(w.granted)
	}
}

// next returns the waiter to serve: an authenticated one first, then one of the address whose turn
// is longest ago. It is nil if there is not enough for any.
func (p *pool) next() *waiter {
	var best *waiter
	for _, w := range p.waiting {
		if !p.fits(w.who, w.n) {
			continue
		}
		if w.who.proven {
			return w
		}
		if best == nil || p.turns[w.who.address] < p.turns[best.who.address] {
			best = w
		}
	}
	return best
}

// fits reports whether a caller may take n now.
func (p *pool) fits(who caller, n int64) bool {
	if p.used+n > p.total {
		return false
	}
	if who.proven {
		return true
	}
	left := p.shared - p.unproven - n
	return left >= 0 && p.by[who.address]+n <= 2*(left+p.unit)
}

func (p *pool) grant(who caller, n int64) {
	p.used += n
	if !who.proven {
		p.unproven += n
		p.by[who.address] += n
		p.turn++
		p.turns[who.address] = p.turn
	}
}

// forget removes an address that holds nothing and does not wait.
func (p *pool) forget(who caller) {
	if who.proven || p.by[who.address] > 0 {
		return
	}
	delete(p.by, who.address)
	if !slices.ContainsFunc(p.waiting, func(w *waiter) bool { return w.who == who }) {
		delete(p.turns, who.address)
	}
}

// use returns what is taken, in total and by unauthenticated callers, and how many wait.
func (p *pool) use() (used, unproven int64, waiting int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.used, p.unproven, len(p.waiting)
}

package worker

import (
	"fmt"
	"slices"
	"time"
)

// grant gives idle workers to the next requests, and starts missing workers.
func (p *Pool) grant() {
	if p.closed {
		return
	}
	p.lanes.allowTrials(&p.workers[normal])
	p.handOut(normal)
	p.handOut(low)
	p.staff(low)
	p.staff(normal)
}

// handOut gives the idle workers of a priority to requests.
func (p *Pool) handOut(at priority) {
	set := &p.workers[at]
	for len(set.idle) > 0 && p.mayWork(at) {
		last := len(set.idle) - 1
		t := p.lanes.grant(set.idle[last])
		if t == nil {
			return
		}
		set.idle = set.idle[:last]
		p.counts.Waited += time.Since(t.since)
	}
}

// mayWork reports whether another worker of a priority may have a request: there is one worker more
// than may work at a time. If requests of low priority wait, those of normal priority leave one
// worker to them.
func (p *Pool) mayWork(at priority) bool {
	working := p.workers[normal].working() + p.workers[low].working()
	if p.options.Workers > 1 {
		// Do not count the spare worker.
		working -= min(p.lanes.trials, 1)
	}
	if at == normal && p.workers[low].working() == 0 && len(p.workers[low].idle) > 0 && p.lanes.next(low) != nil {
		working++
	}
	return working < p.options.Workers
}

// staff provides a worker of a priority if requests wait for one, or soon will.
func (p *Pool) staff(at priority) {
	set, waits := &p.workers[at], p.lanes.next(at) != nil
	other := &p.workers[1-at]
	expected := waits || at == normal && (p.holds > 0 || p.evaluates)
	switch {
	case set.starting > 0 || !expected || set.suffices(at, p.options.Workers):
	case set.total < p.lanes.most(at) && set.total+other.total < p.options.most():
		p.start(at)
	case at == low && set.total < p.lanes.most(low) && len(other.idle) > 0 && other.total > 1:
		// Another worker remains for the normal priority.
		w := other.idle[len(other.idle)-1]
		other.idle = other.idle[:len(other.idle)-1]
		p.lower(w)
		set.idle = append(set.idle, w)
		p.handOut(low)
	case at == normal && waits && len(other.idle) > 0 && (set.total == 0 || time.Since(other.idle[0].used) > longIdle):
		w := other.idle[0]
		other.idle = other.idle[1:]
		other.total--
		go w.kill()
		p.start(normal)
	}
}

// longIdle is the idle time after which a worker of low priority is replaced by one of normal
// priority.
const longIdle = time.Second

// lower gives a worker the low priority.
func (p *Pool) lower(w *process) {
	w.lower()
	p.workers[normal].total--
	p.workers[low].total++
	p.counts.Lowered++
}

// overstay keeps a request that takes long from blocking others: its worker gets the low priority or, if there must
// not be more of these, is killed.
func (p *Pool) overstay(w *process, t *turn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w.turn != t {
		return
	}
	p.lanes.lower(t.lane)
	if p.workers[low].total < p.lanes.most(low) {
		p.lanes.endTrial(t)
		p.lower(w)
		p.grant()
		return
	}
	// Do not wait: killing the worker takes a while.
	w.preempted = true
	p.lanes.endTrial(t)
	p.workers[normal].total--
	_ = w.cmd.Process.Kill()
	p.grant()
}

// start starts a worker in the background.
func (p *Pool) start(at priority) {
	set := &p.workers[at]
	set.total++
	set.starting++
	// A tenant whose requests take long pays for the start. For background jobs, which others wait
	// for when a server starts, the worker gets the low priority when it is ready.
	begins := normal
	if at == low && len(p.lanes.lowered()) > 0 {
		begins = low
	}
	kinds := slices.Clone(p.kinds)
	go func() {
		w, err := p.starter.launch(begins, kinds)
		if err == nil && at == low {
			w.lower()
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		set.starting--
		if err == nil && p.closed {
			set.total--
			go w.kill()
			return
		}
		if err != nil {
			set.total--
			p.fail(at, err)
			return
		}
		p.failures = 0
		p.counts.Started++
		set.idle = append(set.idle, w)
		p.grant()
		p.sweepLater()
	}()
}

// fail records that a worker could not be started: the time until the next attempt grows.
func (p *Pool) fail(at priority, err error) {
	p.failures++
	p.failure = err
	wait := min(100*time.Millisecond<<min(p.failures-1, 10), 10*time.Second)
	p.retry = time.Now().Add(wait)
	p.options.Log.Error("cannot start a worker", "err", err, "retry", wait)
	if p.workers[at].total == 0 {
		p.lanes.fail(at, fmt.Errorf("%w: %w", ErrUnavailable, err))
	}
	p.grantAfter(wait)
}

// grantAfter calls grant after a time, for the requests that still wait then.
func (p *Pool) grantAfter(wait time.Duration) {
	time.AfterFunc(wait, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.lanes.waiting > 0 {
			p.grant()
		}
	})
}

// sweepLater schedules the end of workers that are no longer needed.
func (p *Pool) sweepLater() {
	if p.sweeping || p.closed {
		return
	}
	p.sweeping = true
	time.AfterFunc(p.options.Idle, p.sweep)
}

func (p *Pool) sweep() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.sweeping = false; p.holds > 0 || p.closed {
		return
	}
	if time.Since(p.lastUse) >= p.options.Idle {
		p.workers.endIdle(normal)
		p.workers.endIdle(low)
	}
	if p.workers[normal].total+p.workers[low].total > 0 {
		p.sweepLater()
	}
}

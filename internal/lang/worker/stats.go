package worker

import (
	"errors"
	"time"
)

// Stats are the current state of a pool, and counts since its creation.
type Stats struct {
	// Workers are running now, LowPriority of them with the low priority.
	Workers, LowPriority int
	// Waiting is the number of requests that wait for a worker now.
	Waiting int
	// LowTenants are the tenants whose requests have the low priority now, because some took long.
	// They are sorted.
	LowTenants []string

	// Answered counts requests with an answer.
	Answered int
	// Refused counts requests that were rejected because too many requests of their tenant waited.
	Refused int
	// Waited is the total time that requests have waited for a worker.
	Waited time.Duration

	// Started counts workers; Overran, OutOfMemory, Crashed, Preempted and Recycled those that ended in
	// these ways. A worker is preempted if its request takes long and others need the worker.
	Started, Overran, OutOfMemory, Crashed, Preempted, Recycled int
	// Lowered counts workers that were given the low priority after they had been started.
	Lowered int
}

// Stats returns the counts so far.
func (p *Pool) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.counts
	for at, set := range p.workers {
		s.Workers += set.total - set.starting
		if priority(at) == low {
			s.LowPriority = set.total - set.starting
		}
	}
	s.Waiting, s.LowTenants = p.lanes.waiting, p.lanes.lowered()
	return s
}

// count counts the outcome of a request, and of its worker.
func (s *Stats) count(o outcome) {
	switch {
	case o.took == 0:
	case o.err == nil:
		s.Answered++
		if o.last {
			s.Recycled++
		}
	case errors.Is(o.err, errPreempted):
		s.Preempted++
	case errors.Is(o.err, ErrTimeout):
		s.Overran++
	case errors.Is(o.err, ErrMemory):
		s.OutOfMemory++
	default:
		s.Crashed++
	}
}

// Memory returns the memory limit of each worker for its requests, in bytes.
func (p *Pool) Memory() int64 { return p.options.Memory }

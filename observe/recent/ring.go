package recent

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
)

const (
	// Size is how many decisions a ring keeps.
	Size = 8192
	// MostSubscribers is how many subscribers a ring has at the same time.
	MostSubscribers = 32
)

// A Ring has the last [Size] decisions. The zero Ring is empty. It is safe for concurrent use.
type Ring struct {
	next  atomic.Uint64
	slots [Size]atomic.Pointer[Decision]
	// subscribers are those that wait. The list is replaced as a whole.
	subscribers atomic.Pointer[[]*Subscription]
	subscribing sync.Mutex
}

// Add adds a decision, which must not change afterwards. It never waits.
func (r *Ring) Add(d *Decision) {
	d.Sequence = r.next.Add(1) - 1
	r.store(d)
	subscribers := r.subscribers.Load()
	if subscribers == nil {
		return
	}
	for _, s := range *subscribers {
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}
}

// store puts a decision into its place, unless a goroutine that was faster by a whole round has put a
// later one there.
func (r *Ring) store(d *Decision) {
	slot := &r.slots[d.Sequence%Size]
	for {
		before := slot.Load()
		if before != nil && before.Sequence > d.Sequence || slot.CompareAndSwap(before, d) {
			return
		}
	}
}

// Next returns the sequence number of the decision that is added next.
func (r *Ring) Next() uint64 { return r.next.Load() }

// ErrTooMany is the error of a subscription above [MostSubscribers].
var ErrTooMany = errors.New("too many subscribers")

// Subscribe returns a subscription to the decisions from a sequence number on. Close it.
func (r *Ring) Subscribe(from uint64) (*Subscription, error) {
	r.subscribing.Lock()
	defer r.subscribing.Unlock()
	var all []*Subscription
	if known := r.subscribers.Load(); known != nil {
		all = *known
	}
	if len(all) >= MostSubscribers {
		return nil, ErrTooMany
	}
	s := &Subscription{ring: r, at: from, wake: make(chan struct{}, 1)}
	all = append(slices.Clone(all), s)
	r.subscribers.Store(&all)
	return s, nil
}

func (r *Ring) unsubscribe(s *Subscription) {
	r.subscribing.Lock()
	defer r.subscribing.Unlock()
	if known := r.subscribers.Load(); known != nil {
		left := slices.DeleteFunc(slices.Clone(*known), func(other *Subscription) bool { return other == s })
		if r.subscribers.Store(&left); len(left) == 0 {
			r.subscribers.Store(nil)
		}
	}
}

// A Subscription follows the decisions of a ring. It is for one goroutine.
type Subscription struct {
	ring *Ring
	// at is the sequence number of the next decision to read.
	at   uint64
	wake chan struct{}
}

// Read appends decisions that have been added to dst, in order, up to its capacity, and returns how
// many were lost before them. It does not wait.
func (s *Subscription) Read(dst []*Decision) (all []*Decision, lost uint64) {
	next := s.ring.next.Load()
	for len(dst) < cap(dst) && s.at < next {
		if oldest := next - min(next, Size); s.at < oldest {
			lost += oldest - s.at
			s.at = oldest
		}
		d := s.ring.slots[s.at%Size].Load()
		switch {
		case d == nil || d.Sequence < s.at:
			// It is about to be added.
			return dst, lost
		case d.Sequence > s.at:
			// The ring has gone round since.
			next = s.ring.next.Load()
			if s.at >= next-min(next, Size) {
				// Its place is taken by one that is not counted yet.
				lost, s.at = lost+1, s.at+1
			}
			continue
		}
		dst = append(dst, d)
		s.at++
	}
	return dst, lost
}

// More receives when there may be more to read.
func (s *Subscription) More() <-chan struct{} { return s.wake }

// Close ends the subscription.
func (s *Subscription) Close() { s.ring.unsubscribe(s) }

// Last returns the last decisions that a filter accepts, at most n, the oldest first; all if the
// filter is nil.
func (r *Ring) Last(n int, accepts func(*Decision) bool) []*Decision {
	var all []*Decision
	next := r.next.Load()
	for i := range min(next, Size) {
		d := r.slots[(next-1-i)%Size].Load()
		if len(all) == n {
			break
		}
		if d != nil && (accepts == nil || accepts(d)) {
			all = append(all, d)
		}
	}
	slices.SortFunc(all, func(a, b *Decision) int { return int(int64(a.Sequence) - int64(b.Sequence)) })
	return all
}

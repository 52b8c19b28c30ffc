package recent

import (
	"errors"
	"slices"
	"sync/atomic"
)

// MostSubscribers is how many subscribers a ring has at the same time.
const MostSubscribers = 32

var (
	// ErrTooMany is the error of a subscription above [MostSubscribers].
	ErrTooMany = errors.New("too many subscribers")
	// ErrDisplaced is why a subscription ended: its owner has more of them than another one who
	// has come.
	ErrDisplaced = errors.New("ended for a subscriber who has fewer")
	// ErrEnded is the error of subscriptions when the server shuts down.
	ErrEnded = errors.New("shutting down")
)

// subscribers are those who follow a ring.
type subscribers struct {
	// all is replaced as a whole; nil if there are none.
	all  atomic.Pointer[[]*Subscription]
	lost atomic.Uint64
}

// wake tells subscribers that there is something to read.
func (s *subscribers) wake() {
	all := s.all.Load()
	if all == nil {
		return
	}
	for _, one := range *all {
		select {
		case one.wake <- struct{}{}:
		default:
		}
	}
}

func (s *subscribers) list() []*Subscription {
	if all := s.all.Load(); all != nil {
		return *all
	}
	return nil
}

func (s *subscribers) replace(all []*Subscription) {
	if len(all) == 0 {
		s.all.Store(nil)
		return
	}
	s.all.Store(&all)
}

// Subscribers returns how many subscribers there are, and how many decisions all have lost so far.
func (s *subscribers) Subscribers() (now int, lost uint64) { return len(s.list()), s.lost.Load() }

// A Subscription follows the decisions of a ring. It is for one goroutine.
type Subscription struct {
	cursor *Cursor
	owner  string
	wake   chan struct{}
	// done is closed, and err set before, when the ring ends the subscription.
	done chan struct{}
	err  error
}

// Subscribe returns a subscription to what a cursor of the ring reads. Close it. If there are too many, it ends the last subscription of the owner who has most, if
// that leaves them with no fewer than this owner.
func (r *Ring) Subscribe(owner string, from *Cursor) (*Subscription, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return nil, ErrEnded
	}
	all := r.list()
	if len(all) >= MostSubscribers {
		surplus := surplusOf(all, owner)
		if surplus == nil {
			return nil, ErrTooMany
		}
		surplus.end(ErrDisplaced)
		all = without(all, surplus)
	}
	s := &Subscription{cursor: from, owner: owner, wake: make(chan struct{}, 1), done: make(chan struct{})}
	r.replace(append(slices.Clone(all), s))
	return s, nil
}

// surplusOf returns the last subscription of the owner who has most; nil if the given owner would
// then have more.
func surplusOf(all []*Subscription, owner string) *Subscription {
	counts := map[string]int{}
	var most *Subscription
	for _, s := range all {
		counts[s.owner]++
		if most == nil || counts[s.owner] >= counts[most.owner] {
			most = s
		}
	}
	if counts[most.owner]-1 < counts[owner]+1 {
		return nil
	}
	return most
}

func without(all []*Subscription, s *Subscription) []*Subscription {
	return slices.DeleteFunc(slices.Clone(all), func(other *Subscription) bool { return other == s })
}

// End ends all subscriptions, also those to come.
func (r *Ring) End() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
	for _, s := range r.list() {
		s.end(ErrEnded)
	}
	r.replace(nil)
}

func (s *Subscription) end(err error) {
	s.err = err
	close(s.done)
}

// Next is that of a [Cursor].
func (s *Subscription) Next(dst []*Decision) (all []*Decision, lost uint64) {
	all, lost = s.cursor.Next(dst)
	s.cursor.ring.lost.Add(lost)
	return all, lost
}

// At returns the sequence number of the next decision to read.
func (s *Subscription) At() uint64 { return s.cursor.at }

// More receives when there may be more to read.
func (s *Subscription) More() <-chan struct{} { return s.wake }

// Done is closed when the ring has ended the subscription; Err then says why.
func (s *Subscription) Done() <-chan struct{} { return s.done }

// Err returns why Done is closed.
func (s *Subscription) Err() error { return s.err }

// Close ends the subscription.
func (s *Subscription) Close() {
	r := s.cursor.ring
	r.mu.Lock()
	defer r.mu.Unlock()
	r.replace(without(r.list(), s))
}

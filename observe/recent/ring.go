package recent

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	usher "github.com/usher-dev/usher"
)

const (
	// Size is how many decisions a ring keeps at most.
	Size = 8192
	// MaxBytes is how much memory they take at most. If names are so long that they would take more,
	// fewer are kept.
	MaxBytes = 4 << 20
	// shared is how many of the last decisions readers have in common.
	shared = 256
)

// A Ring has the last [Size] decisions. The zero Ring is empty. It is safe for concurrent use.
type Ring struct {
	next  atomic.Uint64
	slots [Size]atomic.Pointer[kept]
	// tail is the sequence number of the oldest decision that is kept, if there is no newer one in
	// its slot. Bytes is what all that are kept take.
	tail  atomic.Uint64
	bytes atomic.Int64
	// read are decisions in the form for readers, of whom most read the same ones at the same time.
	read [shared]atomic.Pointer[Decision]

	subscribers
	mu sync.Mutex
	// ended is set once there are no more subscriptions.
	ended bool
}

// Add adds a decision. It never waits.
func (r *Ring) Add(request *usher.Request, d *usher.Decision, err error, start time.Time) {
	k := keep(request, d, err, start)
	if k == nil {
		return
	}
	k.sequence = r.next.Add(1) - 1
	r.store(k)
	r.wake()
}

// store puts a decision into its slot, unless a goroutine that was faster by a whole round has put a
// later one there, and removes the oldest ones if all take too much memory.
func (r *Ring) store(k *kept) {
	slot := &r.slots[k.sequence%Size]
	for {
		before := slot.Load()
		if before != nil && before.sequence > k.sequence {
			return
		}
		if slot.CompareAndSwap(before, k) {
			r.account(k, before)
			break
		}
	}
	for r.bytes.Load() > MaxBytes {
		oldest := r.oldest(k.sequence + 1)
		if oldest >= k.sequence {
			return
		}
		slot := &r.slots[oldest%Size]
		before := slot.Load()
		if tail := r.tail.Load(); tail <= oldest && r.tail.CompareAndSwap(tail, oldest+1) &&
			before != nil && before.sequence == oldest && slot.CompareAndSwap(before, nil) {
			r.account(nil, before)
		}
	}
}

func (r *Ring) account(added, removed *kept) {
	n := int64(0)
	if added != nil {
		n += added.size()
	}
	if removed != nil {
		n -= removed.size()
	}
	r.bytes.Add(n)
}

// oldest returns the sequence number of the oldest decision that is kept when next is the next one.
func (r *Ring) oldest(next uint64) uint64 {
	return max(next-min(next, Size), r.tail.Load())
}

// Next returns the sequence number of the decision that is added next.
func (r *Ring) Next() uint64 { return r.next.Load() }

// Last returns the sequence number from which on there are n decisions that a filter selects, or as
// many as are kept.
func (r *Ring) Last(n int, f *Filter) uint64 {
	next := r.next.Load()
	oldest := r.oldest(next)
	at := next
	for ; at > oldest && n > 0; at-- {
		k := r.slots[(at-1)%Size].Load()
		if k != nil && k.sequence == at-1 && f.selects(k) {
			n--
		}
	}
	return at
}

// Bytes returns what the decisions take of memory.
func (r *Ring) Bytes() int64 { return r.bytes.Load() }

// A Cursor reads the decisions of a ring in order. It is for one goroutine.
type Cursor struct {
	ring   *Ring
	filter *Filter
	// at is the sequence number of the next decision to read.
	at uint64
}

// Read returns a cursor for the decisions that a filter selects, from a sequence number on.
func (r *Ring) Read(from uint64, f *Filter) *Cursor { return &Cursor{ring: r, filter: f, at: from} }

// Next appends decisions to dst, up to its capacity, and returns how many decisions, whether the
// filter would have selected them or not, were lost before them. It does not wait.
func (c *Cursor) Next(dst []*Decision) (all []*Decision, lost uint64) {
	return c.Until(dst, math.MaxUint64)
}

// Until is as Next for the decisions before a sequence number.
func (c *Cursor) Until(dst []*Decision, end uint64) (all []*Decision, lost uint64) {
	next := min(c.ring.next.Load(), end)
	for len(dst) < cap(dst) && c.at < next {
		if oldest := c.ring.oldest(c.ring.next.Load()); c.at < oldest {
			lost += oldest - c.at
			c.at = oldest
			continue
		}
		k := c.ring.slots[c.at%Size].Load()
		switch {
		case k == nil && c.at < c.ring.tail.Load():
			continue
		case k == nil || k.sequence < c.at:
			// It is about to be added.
			return dst, lost
		case k.sequence > c.at:
			// The ring has gone round since, also if that is not counted yet.
			lost, c.at = lost+1, c.at+1
			continue
		}
		if c.filter.selects(k) {
			dst = append(dst, c.ring.decision(k))
		}
		c.at++
	}
	return dst, lost
}

// At returns the sequence number of the next decision to read.
func (c *Cursor) At() uint64 { return c.at }

// decision returns a decision in the form for readers.
func (r *Ring) decision(k *kept) *Decision {
	slot := &r.read[k.sequence%shared]
	if d := slot.Load(); d != nil && d.Sequence == k.sequence {
		return d
	}
	d := k.decision()
	if k.sequence+shared >= r.next.Load() {
		slot.Store(d)
	}
	return d
}

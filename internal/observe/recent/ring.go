package recent

import (
	"math"
	"slices"
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
	// lineSize is how many of them are the last ones of all, and lineBytes what these take at most.
	lineSize, lineBytes = Size / 2, MaxBytes / 2
	// readSize is how many of the last decisions readers have in common.
	readSize = 256
)

// A Ring has the last decisions, and the last ones of each namespace: [Size] together. The zero Ring
// is empty. It is safe for concurrent use.
type Ring struct {
	// Since is when the ring began to get decisions; it may be zero, and is set before the ring is used.
	Since time.Time

	next  atomic.Uint64
	slots [lineSize]atomic.Pointer[kept]
	// tail is the sequence number of the oldest decision in slots, if there is no newer one in its
	// slot. Bytes is what all in slots take.
	tail  atomic.Uint64
	bytes atomic.Int64
	// shares have older decisions.
	shares [shares]share
	// read are decisions in the form for readers, of whom most read the same ones at the same time.
	read [readSize]atomic.Pointer[Decision]

	subscribers
	mu sync.Mutex
	// ended is set once there are no more subscriptions.
	ended bool
}

// Add adds a decision. It never waits.
func (r *Ring) Add(request *usher.Request, d *usher.Decision, err error, start time.Time) {
	k := keep(request, d, err, start)
	if k != nil {
		r.add(request, k)
	}
}

func (r *Ring) add(request *usher.Request, k *kept) {
	k.share = shareOf(request)
	k.sequence = r.next.Add(1) - 1
	r.store(k)
	r.wake()
}

// store puts a decision into its slot, unless a goroutine that was faster by a whole round has put a
// later one there, and moves the oldest ones to their shares if all take too much memory.
func (r *Ring) store(k *kept) {
	slot := &r.slots[k.sequence%lineSize]
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
	for r.bytes.Load() > lineBytes {
		oldest := r.oldest(k.sequence + 1)
		if oldest >= k.sequence {
			return
		}
		slot := &r.slots[oldest%lineSize]
		before := slot.Load()
		if tail := r.tail.Load(); tail <= oldest && r.tail.CompareAndSwap(tail, oldest+1) &&
			before != nil && before.sequence == oldest && slot.CompareAndSwap(before, nil) {
			r.account(nil, before)
		}
	}
}

// account counts what was added to the line, and moves what was removed to its share.
func (r *Ring) account(added, removed *kept) {
	r.bytes.Add(added.size() - removed.size())
	if removed != nil {
		r.shares[removed.share].put(removed)
	}
}

// oldest returns the sequence number of the oldest decision in the line when next is the next one.
func (r *Ring) oldest(next uint64) uint64 {
	return max(next-min(next, lineSize), r.tail.Load())
}

// Next returns the sequence number of the decision that is added next.
func (r *Ring) Next() uint64 { return r.next.Load() }

// Last returns a cursor for the last n decisions that a filter selects, or as many as are kept, and
// those after them.
func (r *Ring) Last(n int, f *Filter) *Cursor {
	next := r.next.Load()
	oldest := r.oldest(next)
	at := next
	for ; at > oldest && n > 0; at-- {
		k := r.slots[(at-1)%lineSize].Load()
		if k != nil && k.sequence == at-1 && f.selects(k) {
			n--
		}
	}
	if n > 0 {
		for _, k := range slices.Backward(r.shared(0, oldest)) {
			if f.selects(k) {
				at = k.sequence
				if n--; n == 0 {
					break
				}
			}
		}
	}
	return &Cursor{ring: r, filter: f, at: at, gone: oldest}
}

// Oldest returns the time from which on all decisions are kept: of those in a namespace, or of all if that is empty. As
// long as none is lost, that is Since; otherwise it is the time of a decision. It is zero if there is neither.
func (r *Ring) Oldest(namespace string) time.Time {
	next := r.next.Load()
	oldest := r.oldest(next)
	if oldest == 0 && !r.Since.IsZero() {
		return r.Since.UTC()
	}
	f := &Filter{Namespace: namespace}
	// What has left the line is complete for a namespace, and not for all.
	if namespace != "" {
		for _, k := range r.shared(0, oldest) {
			if f.selects(k) {
				return time.Unix(0, k.at).UTC()
			}
		}
	}
	for at := oldest; at < next; at++ {
		if k := r.slots[at%lineSize].Load(); k != nil && k.sequence == at && f.selects(k) {
			return time.Unix(0, k.at).UTC()
		}
	}
	return time.Time{}
}

// Bytes returns what the decisions take of memory.
func (r *Ring) Bytes() int64 {
	n := r.bytes.Load()
	for i := range r.shares {
		n += r.shares[i].bytes.Load()
	}
	return n
}

// A Cursor reads the decisions of a ring in order. It is for one goroutine.
type Cursor struct {
	ring   *Ring
	filter *Filter
	// at is the sequence number of the next decision to read.
	at uint64
	// gone is a sequence number: decisions before it that are not kept were gone when the cursor was
	// made. They are not lost.
	gone uint64
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
			var missed uint64
			dst, missed = c.older(dst, min(oldest, next))
			lost += missed
			continue
		}
		k := c.ring.slots[c.at%lineSize].Load()
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

// older appends decisions that are in shares, up to the capacity of dst, or until it arrives at the
// oldest decision in the line. Those that are in neither are lost.
func (c *Cursor) older(dst []*Decision, oldest uint64) (all []*Decision, lost uint64) {
	for _, k := range c.ring.shared(c.at, oldest) {
		if len(dst) == cap(dst) {
			return dst, lost
		}
		lost += c.pass(k.sequence)
		c.at++
		if c.filter.selects(k) {
			dst = append(dst, c.ring.decision(k))
		}
	}
	if len(dst) < cap(dst) {
		lost += c.pass(oldest)
	}
	return dst, lost
}

// pass goes on to a sequence number, and returns how many decisions are lost on the way.
func (c *Cursor) pass(to uint64) (lost uint64) {
	lost = max(to, c.gone) - max(c.at, c.gone)
	c.at = to
	return lost
}

// At returns the sequence number of the next decision to read.
func (c *Cursor) At() uint64 { return c.at }

// decision returns a decision in the form for readers.
func (r *Ring) decision(k *kept) *Decision {
	slot := &r.read[k.sequence%readSize]
	if d := slot.Load(); d != nil && d.Sequence == k.sequence {
		return d
	}
	d := k.decision()
	if k.sequence+readSize >= r.next.Load() {
		slot.Store(d)
	}
	return d
}

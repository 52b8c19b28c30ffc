// Package queue has what an audit has to do next: a work queue with two priorities, in which nobody
// waits for all the items of another, and a limit of the CPU time that working on them takes.
package queue

import "sync"

// A Priority says what is done first.
type Priority uint8

// The priorities. Items that are not queued have none.
const (
	none Priority = iota
	Low
	High
)

// lowEvery is how often an item of low priority is returned although there is one of high priority.
const lowEvery = 8

// An Entry is embedded in what can be in one queue. The queue guards it. The zero Entry is not queued.
type Entry struct{ priority Priority }

func (e *Entry) entry() *Entry { return e }

// An Item is what embeds an [Entry].
type Item interface{ entry() *Entry }

// A Queue has items in groups, and in lanes of groups. Groups take turns, and so do the lanes of a
// group. It is safe for concurrent use. Use [New].
type Queue[G, L comparable, T Item] struct {
	ready Signal

	mu sync.Mutex
	// levels have the items of each priority.
	levels [High + 1]lanes[G, L, T]
	turn   uint64
}

// New returns an empty Queue.
func New[G, L comparable, T Item]() *Queue[G, L, T] {
	return &Queue[G, L, T]{ready: NewSignal()}
}

// Ready returns a channel that has a value if there may be items.
func (q *Queue[G, L, T]) Ready() <-chan struct{} { return q.ready }

// Add queues an item, unless it is queued with the same or a higher priority.
func (q *Queue[G, L, T]) Add(group G, lane L, item T, priority Priority) {
	q.mu.Lock()
	defer q.mu.Unlock()
	e := item.entry()
	if e.priority >= priority {
		return
	}
	e.priority = priority
	lanes := q.levels[priority].part(group, func() *rotation[L, T, *fifo[T]] { return &rotation[L, T, *fifo[T]]{} })
	lanes.part(lane, func() *fifo[T] { return &fifo[T]{} }).push(item)
	q.ready.Send()
}

// Remove removes an item, if it is queued.
func (q *Queue[G, L, T]) Remove(item T) {
	q.mu.Lock()
	defer q.mu.Unlock()
	// Next skips it.
	item.entry().priority = none
}

// Next removes the next item and returns it.
func (q *Queue[G, L, T]) Next() (item T, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.turn++
	first, second := High, Low
	if q.turn%lowEvery == 0 {
		first, second = Low, High
	}
	for _, priority := range []Priority{first, second} {
		for from := &q.levels[priority]; !from.empty(); {
			next := from.pop()
			if e := next.entry(); e.priority == priority {
				e.priority = none
				// There may be more, for others.
				q.ready.Send()
				return next, true
			}
		}
	}
	return item, false
}

// A Signal has at most one value.
type Signal chan struct{}

// NewSignal returns a Signal without a value.
func NewSignal() Signal { return make(Signal, 1) }

// Send sends a value, unless there is one.
func (s Signal) Send() {
	select {
	case s <- struct{}{}:
	default:
	}
}

// lanes are the items of one priority.
type lanes[G, L comparable, T any] = rotation[G, T, *rotation[L, T, *fifo[T]]]

// A part is what items are popped from, unless it is empty.
type part[T any] interface {
	pop() T
	empty() bool
}

// A rotation pops from its parts in turn. Empty ones leave it.
type rotation[K comparable, T any, P part[T]] struct {
	parts map[K]P
	order []K
	next  int
}

// part returns the part with a key, made if necessary.
func (r *rotation[K, T, P]) part(key K, newPart func() P) P {
	p, known := r.parts[key]
	if !known {
		if r.parts == nil {
			r.parts = map[K]P{}
		}
		p = newPart()
		r.parts[key] = p
		r.order = append(r.order, key)
	}
	return p
}

func (r *rotation[K, T, P]) pop() T {
	r.next %= len(r.order)
	key := r.order[r.next]
	p := r.parts[key]
	item := p.pop()
	if !p.empty() {
		r.next++
		return item
	}
	delete(r.parts, key)
	last := len(r.order) - 1
	r.order[r.next] = r.order[last]
	clear(r.order[last:])
	r.order = r.order[:last]
	return item
}

func (r *rotation[K, T, P]) empty() bool { return len(r.order) == 0 }

type fifo[T any] struct {
	items []T
	head  int
}

func (f *fifo[T]) push(item T) { f.items = append(f.items, item) }

func (f *fifo[T]) pop() T {
	item := f.items[f.head]
	clear(f.items[f.head : f.head+1])
	f.head++
	return item
}

func (f *fifo[T]) empty() bool { return f.head == len(f.items) }

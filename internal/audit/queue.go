package audit

// A priority says in which queue a projection is.
type priority uint8

const (
	none priority = iota
	// cold is for what all of a kind has to be judged for, hot for objects that have changed.
	cold
	hot
)

// coldEvery is how often something cold is taken although there is something hot.
const coldEvery = 8

// A queue has projections of one kind. Its namespaces take turns, so that nobody's objects wait for
// all those of another.
type queue struct {
	lanes map[*namespace]*lane
	ring  []*lane
	next  int
}

type lane struct {
	namespace *namespace
	items     []*projection
	head      int
}

func newQueue() queue { return queue{lanes: map[*namespace]*lane{}} }

func (q *queue) push(n *namespace, p *projection) {
	l := q.lanes[n]
	if l == nil {
		l = &lane{namespace: n}
		q.lanes[n] = l
		q.ring = append(q.ring, l)
	}
	l.items = append(l.items, p)
}

// pop returns a projection that is queued with a priority; nil if there is none. Those that have left
// the queue are dropped.
func (q *queue) pop(how priority) *projection {
	for len(q.ring) > 0 {
		q.next %= len(q.ring)
		l := q.ring[q.next]
		p := l.take()
		if l.head == len(l.items) {
			delete(q.lanes, l.namespace)
			q.ring[q.next] = q.ring[len(q.ring)-1]
			q.ring = q.ring[:len(q.ring)-1]
		} else {
			q.next++
		}
		if p.queued == how && p.refs > 0 {
			return p
		}
	}
	return nil
}

func (l *lane) take() *projection {
	p := l.items[l.head]
	l.items[l.head] = nil
	l.head++
	return p
}

// take returns the next projection to judge, of the kind whose turn it is, and nil if there is none.
func (a *Auditor) take() (*kind, *projection) {
	a.turn++
	first, second := hot, cold
	if a.turn%coldEvery == 0 {
		first, second = cold, hot
	}
	for _, how := range []priority{first, second} {
		for i := range a.ring {
			k := a.ring[(int(a.turn/coldEvery)+int(a.turn)+i)%len(a.ring)]
			q := &k.cold
			if how == hot {
				q = &k.hot
			}
			if p := q.pop(how); p != nil {
				return k, p
			}
		}
	}
	return nil, nil
}

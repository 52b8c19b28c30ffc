package worker

import (
	"slices"
	"time"
)

// Lanes say whose turn it is. Each tenant has a lane of its own, so that its requests wait behind
// its own. Tenants take turns, those without slow requests first; and while there are two workers
// or more, one is always left for these.
type lanes struct {
	workers int
	byName  map[string]*lane
	// order are the lanes in which somebody waits; the first has waited longest for a turn.
	order []*lane
}

type lane struct {
	tenant  string
	waiting []*turn
	// running counts the requests that have a worker.
	running int
	// slowUntil is until when the tenant counts as slow.
	slowUntil time.Time
}

// A turn is one request's. Worker and err may be read once granted is closed.
type turn struct {
	lane    *lane
	granted chan struct{}
	worker  *process
	err     error
}

const (
	// longestLane is how many requests of one tenant may wait.
	longestLane = 64
	// slowFor is for how long a tenant counts as slow after a request that took more than a
	// tenth of its limit, and worseFor after one that never answered.
	slowFor  = 10 * time.Second
	worseFor = time.Minute
	// manyLanes is from how many lanes on those are forgotten that say nothing any more.
	manyLanes = 1000
)

func newLanes(workers int) lanes { return lanes{workers: workers, byName: map[string]*lane{}} }

// join lets a request of a tenant wait; it is not ok if too many do.
func (l *lanes) join(tenant string) (*turn, bool) {
	lane := l.of(tenant)
	if len(lane.waiting) >= longestLane {
		return nil, false
	}
	t := &turn{lane: lane, granted: make(chan struct{})}
	if len(lane.waiting) == 0 {
		l.order = append(l.order, lane)
	}
	lane.waiting = append(lane.waiting, t)
	return t, true
}

func (l *lanes) of(tenant string) *lane {
	if known := l.byName[tenant]; known != nil {
		return known
	}
	if len(l.byName) >= manyLanes {
		now := time.Now()
		for name, lane := range l.byName {
			if len(lane.waiting) == 0 && lane.running == 0 && now.After(lane.slowUntil) {
				delete(l.byName, name)
			}
		}
	}
	l.byName[tenant] = &lane{tenant: tenant}
	return l.byName[tenant]
}

// leave takes back a request that waits, and reports whether it still did.
func (l *lanes) leave(t *turn) bool {
	i := slices.Index(t.lane.waiting, t)
	if i < 0 {
		return false
	}
	t.lane.waiting = slices.Delete(t.lane.waiting, i, i+1)
	if len(t.lane.waiting) == 0 {
		l.order = slices.DeleteFunc(l.order, func(other *lane) bool { return other == t.lane })
	}
	return true
}

// grant gives a worker to the request whose turn it is, and reports whether there is one.
func (l *lanes) grant(w *process, now time.Time) bool {
	for _, slow := range []bool{false, true} {
		for i, lane := range l.order {
			if now.Before(lane.slowUntil) != slow || !l.may(lane, slow, now) {
				continue
			}
			t := lane.waiting[0]
			lane.waiting = lane.waiting[1:]
			lane.running++
			l.order = slices.Delete(l.order, i, i+1)
			if len(lane.waiting) > 0 {
				l.order = append(l.order, lane)
			}
			t.worker = w
			close(t.granted)
			return true
		}
	}
	return false
}

// may reports whether a tenant may have another worker.
func (l *lanes) may(lane *lane, slow bool, now time.Time) bool {
	most := max(l.workers-1, 1)
	if !slow {
		return lane.running < most
	}
	running := 0
	for _, other := range l.byName {
		if now.Before(other.slowUntil) {
			running += other.running
		}
	}
	return lane.running < 1 && running < most
}

// done takes note of a request that has its answer, or never gets one.
func (l *lanes) done(tenant string, took, limit time.Duration, err error, now time.Time) {
	lane := l.of(tenant)
	lane.running--
	until := now
	switch {
	case err != nil:
		until = now.Add(worseFor)
	case took > limit/10:
		until = now.Add(slowFor)
	}
	if until.After(lane.slowUntil) && until != now {
		lane.slowUntil = until
	}
}

// fail ends the wait of all.
func (l *lanes) fail(err error) {
	for _, lane := range l.order {
		for _, t := range lane.waiting {
			t.err = err
			close(t.granted)
		}
		lane.waiting = nil
	}
	l.order = nil
}

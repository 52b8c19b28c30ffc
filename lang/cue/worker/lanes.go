package worker

import (
	"math"
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
	// busy is how long its requests have taken, in seconds, and count how many there were, up to
	// at; what is long ago counts for less and less.
	busy, count float64
	at          time.Time
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
	// halfLife is after how many seconds what a request took counts for half.
	halfLife = 5
	// A tenant is slow whose requests have taken more than slowTotal seconds together, and more
	// than slowEach on average: neither many quick ones nor one that met a busy machine make it so.
	slowTotal, slowEach = 1.5, 0.05
	// penalty is how many seconds a request counts for that never answered.
	penalty = 10
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
			if len(lane.waiting) == 0 && lane.running == 0 && !lane.slow(now) {
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

// grant gives a worker to the request whose turn it is, and reports whether there is one. So many
// workers are alive: the others are being started.
func (l *lanes) grant(w *process, alive int, now time.Time) bool {
	for _, slow := range []bool{false, true} {
		for i, lane := range l.order {
			if lane.slow(now) != slow || !l.may(lane, alive, now) {
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

// may reports whether a tenant may have another of the workers that are alive.
func (l *lanes) may(lane *lane, alive int, now time.Time) bool {
	if !lane.slow(now) {
		return lane.running < max(l.workers-1, 1)
	}
	running := 0
	for _, other := range l.byName {
		if other.slow(now) {
			running += other.running
		}
	}
	if l.workers > 1 {
		alive--
	}
	return lane.running < 1 && running < alive
}

// done takes note of a request that has its answer, or never gets one.
func (l *lanes) done(tenant string, took time.Duration, err error, now time.Time) {
	lane := l.of(tenant)
	lane.running--
	fade := lane.fade(now)
	lane.busy, lane.count, lane.at = lane.busy*fade+took.Seconds(), lane.count*fade+1, now
	if err != nil {
		lane.busy += penalty
	}
}

// fade is what is left by now of what counted before.
func (l *lane) fade(now time.Time) float64 {
	return math.Exp2(-now.Sub(l.at).Seconds() / halfLife)
}

// slow reports whether the tenant's requests take long.
func (l *lane) slow(now time.Time) bool {
	return l.busy*l.fade(now) > slowTotal && l.busy > slowEach*l.count
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

package worker

import (
	"math"
	"slices"
	"time"
)

// Lanes decide which request is next. Each tenant has a lane of its own for its requests, and one for
// its background jobs, so that they wait behind its own. Of the lanes in which requests wait, the one
// that has used the processor least recently is next.
//
// A lane has a priority. All lanes begin with the normal one, except those of background jobs. A lane
// whose request takes long gets the low one for a while, each time for longer. Lanes whose requests
// had to be ended lately share a quarter of a processor, however many they are.
type lanes struct {
	workers int
	byKey   map[laneKey]*lane
	now     func() time.Time
	// trials are the workers of normal priority with a request of a tenant that is not proven, and
	// mostTrials how many there may be.
	trials, mostTrials int
	// restUntil is when requests of lanes with overruns may have workers again.
	restUntil time.Time
}

// A priority is how a worker shares the processor with other processes. Requests of one priority never
// wait for those of the other.
type priority int

const (
	normal priority = iota
	low
	priorities
)

// String is the priority in one word.
func (p priority) String() string {
	if p == low {
		return "low"
	}
	return "normal"
}

type laneKey struct {
	tenant     string
	background bool
}

type lane struct {
	laneKey

	waiting []*turn
	// quick counts the requests since the last one that took long: a tenant is proven by some.
	quick int
	// running counts the requests that have a worker.
	running int
	// busy is for how many seconds its requests have used the processor, overruns how many of them were
	// ended, and recycles how many workers they have made grow, up to at; what is long ago counts for
	// less and less.
	busy, overruns, recycles float64
	at                       time.Time
	// lowUntil is when the low priority ends, and period for how long it was given.
	lowUntil time.Time
	period   time.Duration
	// logged is when the log had a line about it.
	logged time.Time
}

// A turn is one request's. Worker and err may be read once granted is closed.
type turn struct {
	lane    *lane
	since   time.Time
	granted chan struct{}
	worker  *process
	// trial: it is a request of a tenant that is not proven, on a worker of normal priority.
	trial bool
	err   error
}

const (
	// proof is how many quick requests prove a tenant.
	proof = 3
	// longestLane is how many requests of one lane may wait.
	longestLane = 200
	// halfLife is after how many seconds what a request has done counts for half.
	halfLife = 30
	// restFactor is for how many times as long as a request of a lane with overruns has used the
	// processor all such lanes rest, and longestRest for how long at most.
	restFactor  = 3
	longestRest = 2 * time.Second
	// mostRecycles is how many workers a lane may make grow lately.
	mostRecycles = 3
	// shortestPeriod and longestPeriod bound for how long a lane gets the low priority.
	shortestPeriod, longestPeriod = time.Minute, time.Hour
	// manyLanes is from how many lanes on those are forgotten that say nothing any more, and mostLanes
	// from how many on those of new tenants are one.
	manyLanes, mostLanes = 1000, 10_000
	// others is the tenant of that lane. No namespace has such a name.
	others = "(others)"
)

func newLanes(workers int) lanes {
	return lanes{workers: workers, byKey: map[laneKey]*lane{}, now: time.Now}
}

// most is how many workers of a priority there may be. One worker is left for the normal one. Where
// there is a single worker, it has all requests.
func (l *lanes) most(p priority) int {
	if p == low {
		return l.workers - 1
	}
	return l.workers
}

// join lets a request wait; it is not ok if too many of its lane do.
func (l *lanes) join(key laneKey) (*turn, bool) {
	lane := l.of(key)
	if len(lane.waiting) >= longestLane {
		return nil, false
	}
	t := &turn{lane: lane, since: l.now(), granted: make(chan struct{})}
	lane.waiting = append(lane.waiting, t)
	return t, true
}

func (l *lanes) of(key laneKey) *lane {
	if known := l.byKey[key]; known != nil {
		return known
	}
	if len(l.byKey) >= manyLanes {
		now := l.now()
		for key, lane := range l.byKey {
			if len(lane.waiting) == 0 && lane.running == 0 && lane.used(now) < 0.1 && now.Sub(lane.lowUntil) > lane.period {
				delete(l.byKey, key)
			}
		}
	}
	if len(l.byKey) >= mostLanes && key.tenant != others {
		return l.of(laneKey{others, key.background})
	}
	l.byKey[key] = &lane{laneKey: key}
	return l.byKey[key]
}

// leave takes back a request that waits, and reports whether it still did.
func (l *lanes) leave(t *turn) bool {
	i := slices.Index(t.lane.waiting, t)
	if i < 0 {
		return false
	}
	t.lane.waiting = slices.Delete(t.lane.waiting, i, i+1)
	return true
}

// priority returns the priority of a lane.
func (l *lanes) priority(lane *lane) priority {
	if l.workers > 1 && (lane.background || l.now().Before(lane.lowUntil)) {
		return low
	}
	return normal
}

// next returns the lane whose request may have a worker of a priority next; nil if there is none.
func (l *lanes) next(p priority) *lane {
	now := l.now()
	var next *lane
	for _, lane := range l.byKey {
		if len(lane.waiting) == 0 || l.priority(lane) != p || lane.running >= l.share(lane, p) || l.rest(lane) > 0 {
			continue
		}
		if p == normal && lane.quick < proof && l.trials >= l.mostTrials {
			continue
		}
		if next == nil || lane.before(next, now) {
			next = lane
		}
	}
	return next
}

// before reports whether a lane is next rather than another one.
func (l *lane) before(other *lane, now time.Time) bool {
	used, otherUsed := l.used(now), other.used(now)
	return used < otherUsed || used == otherUsed && l.waiting[0].since.Before(other.waiting[0].since)
}

// share is how many workers of a priority a lane may have at a time. Policies of no namespace are
// compiled by as many as there are.
func (l *lanes) share(lane *lane, p priority) int {
	switch {
	case p == normal:
		return max(l.workers-1, 1)
	case lane.background && lane.tenant == "":
		return l.most(low)
	}
	return 1
}

// grant gives a worker to the request that is next, and returns its turn; nil if there is none.
func (l *lanes) grant(w *process) *turn {
	lane := l.next(w.priority)
	if lane == nil {
		return nil
	}
	t := lane.waiting[0]
	lane.waiting = lane.waiting[1:]
	lane.running++
	t.worker, w.turn = w, t
	if t.trial = w.priority == normal && lane.quick < proof; t.trial {
		l.trials++
	}
	close(t.granted)
	return t
}

// A usage is what a request has done.
type usage struct {
	// cpu is for how long it used the processor, and the one that takes the place of its worker to start.
	cpu time.Duration
	// long: it took more than others wait for. Ended: its worker had to be ended. Recycled: its worker
	// had grown.
	long, ended, recycled bool
}

// endTrial takes note that a request is no trial any more: it is over, or its worker is not one of those of
// normal priority.
func (l *lanes) endTrial(t *turn) {
	if t.trial {
		t.trial = false
		l.trials--
	}
}

// done takes note of a request that is over.
func (l *lanes) done(t *turn, u usage) {
	l.endTrial(t)
	lane := t.lane
	lane.running--
	now := l.now()
	fade := lane.fade(now)
	lane.busy, lane.overruns, lane.recycles, lane.at = lane.busy*fade+u.cpu.Seconds(), lane.overruns*fade, lane.recycles*fade, now
	if u.recycled {
		lane.recycles++
	}
	// No rest follows a first overrun. Otherwise new names could keep the others resting for good.
	again := lane.overran(now)
	if u.ended {
		lane.overruns++
	}
	if again {
		from := l.restUntil
		if from.Before(now) {
			from = now
		}
		l.restUntil = from.Add(min(restFactor*u.cpu, longestRest))
	}
	if u.ended || u.long || lane.recycles > mostRecycles {
		l.lower(lane)
		return
	}
	lane.quick++
}

// used is for how many seconds the requests of a lane have used the processor lately.
func (l *lane) used(now time.Time) float64 {
	if l.busy == 0 {
		return 0
	}
	return l.busy * l.fade(now)
}

// overran reports whether requests of a tenant had to be ended lately: one counts for some minutes. What
// belongs to nobody is compiled for those who run the server.
func (l *lane) overran(now time.Time) bool { return l.tenant != "" && l.overruns*l.fade(now) > 0.05 }

// rest is for how long no request of a lane may have a worker.
func (l *lanes) rest(lane *lane) time.Duration {
	now := l.now()
	if !lane.overran(now) {
		return 0
	}
	return max(l.restUntil.Sub(now), 0)
}

// fade is what is left by now of what counted before.
func (l *lane) fade(now time.Time) float64 {
	return math.Exp2(-now.Sub(l.at).Seconds() / halfLife)
}

// lower gives a lane the low priority, for twice as long as the last time unless that is long ago.
func (l *lanes) lower(lane *lane) {
	now := l.now()
	lane.quick = 0
	switch ago := now.Sub(lane.lowUntil); {
	case ago < 0:
	case ago < lane.period*4:
		lane.period = min(2*lane.period, longestPeriod)
	default:
		lane.period = shortestPeriod
	}
	lane.lowUntil = now.Add(lane.period)
}

// limit is for how long a request of a lane may take: half as long for each of those before it that
// had to be ended lately, but an eighth at least.
func (l *lanes) limit(lane *lane, most time.Duration) time.Duration {
	return most >> min(int(lane.overruns*lane.fade(l.now())+0.1), 3)
}

// fail ends the wait of all requests of a priority.
func (l *lanes) fail(p priority, err error) {
	for _, lane := range l.byKey {
		if l.priority(lane) != p {
			continue
		}
		for _, t := range lane.waiting {
			t.err = err
			close(t.granted)
		}
		lane.waiting = nil
	}
}

// waiting counts the requests that wait.
func (l *lanes) waiting() int {
	n := 0
	for _, lane := range l.byKey {
		n += len(lane.waiting)
	}
	return n
}

// lowered lists the tenants whose requests have the low priority, background jobs aside.
func (l *lanes) lowered() []string {
	var tenants []string
	for key, lane := range l.byKey {
		if !key.background && l.priority(lane) == low {
			tenants = append(tenants, key.tenant)
		}
	}
	slices.Sort(tenants)
	return tenants
}

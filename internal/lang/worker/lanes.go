package worker

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// lanes decides which request is next. Each tenant has a lane for its requests, and another one for
// its background jobs, so that requests wait only behind others of their tenant. Of the lanes with
// waiting requests, the one that has recently used the least processor time is next.
//
// A lane has a priority. All lanes start with the normal priority, except those of background jobs. A
// lane whose request takes long gets the low priority for a while, each time for longer. All lanes
// whose requests were recently killed share a quarter of a processor.
type lanes struct {
	workers int
	byKey   map[laneKey]*lane
	// waiting is how many requests wait in all lanes.
	waiting int
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

// String returns the priority in one word.
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

// A turn belongs to one request. Worker and err may be read once granted is closed.
type turn struct {
	lane    *lane
	size    size
	since   time.Time
	granted chan struct{}
	worker  *process
	// trial says that it is a request of an unproven tenant, on a worker of normal priority.
	trial bool
	err   error
}

const (
	// proof is the number of quick requests after which a tenant is proven.
	proof = 3
	// longestLane limits the waiting requests of one lane.
	longestLane = 200
	// halfLife is the time in seconds after which the usage of a request counts half.
	halfLife = 30
	// restFactor is for how many times as long as a request of a lane with overruns has used the
	// processor all such lanes rest, and longestRest for how long at most.
	restFactor  = 3
	longestRest = 2 * time.Second
	// mostRecycles is the recent number of grown workers that is tolerated for a lane.
	mostRecycles = 3
	// shortestPeriod and longestPeriod limit how long a lane has the low priority.
	shortestPeriod, longestPeriod = time.Minute, time.Hour
	// manyLanes is the number of lanes from which on unused lanes are removed, and mostLanes the
	// number from which on all new tenants share one lane.
	manyLanes, mostLanes = 1000, 10_000
	// others is the tenant of the shared lane. No namespace can have this name.
	others = "(others)"
)

func newLanes(workers int) lanes {
	return lanes{workers: workers, byKey: map[laneKey]*lane{}, now: time.Now}
}

// most returns the maximum number of workers of a priority. One worker is reserved for the normal
// priority. A single worker takes all requests.
func (l *lanes) most(p priority) int {
	if p == low {
		return l.workers - 1
	}
	return l.workers
}

// join adds a waiting request; ok is false if too many requests of its lane already wait.
func (l *lanes) join(key laneKey, size size) (*turn, bool) {
	lane := l.of(key)
	if len(lane.waiting) >= longestLane {
		return nil, false
	}
	t := &turn{lane: lane, size: size, since: l.now(), granted: make(chan struct{})}
	lane.waiting = append(lane.waiting, t)
	l.waiting++
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

// leave removes a waiting request, and reports whether it still waited.
func (l *lanes) leave(t *turn) bool {
	i := slices.Index(t.lane.waiting, t)
	if i < 0 {
		return false
	}
	t.lane.waiting = slices.Delete(t.lane.waiting, i, i+1)
	l.waiting--
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
	if l.waiting == 0 {
		return nil
	}
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

// allowTrials reserves a worker of normal priority for proven tenants, unless there can be only one.
func (l *lanes) allowTrials(s *set) {
	l.mostTrials = s.total - s.starting - 1
	if l.mostTrials <= 0 && s.starting == 0 {
		l.mostTrials = 1
	}
}

// A size is how many jobs a tenant has in all, and the size of one of them.
type size struct{ jobs, of int }

func (s size) compare(other size) int {
	return cmp.Or(cmp.Compare(s.jobs, other.jobs), cmp.Compare(s.of, other.of))
}

// before reports whether a lane comes before another one. At a start none has used anything: then the smallest
// is next.
func (l *lane) before(other *lane, now time.Time) bool {
	first, others := l.waiting[0], other.waiting[0]
	return cmp.Or(cmp.Compare(l.used(now), other.used(now)), first.size.compare(others.size), first.since.Compare(others.since)) < 0
}

// share returns how many workers of a priority a lane may have at a time. Background jobs of
// cluster policies may use all workers of low priority.
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
	l.waiting--
	t.worker, w.turn = w, t
	if t.trial = w.priority == normal && lane.quick < proof; t.trial {
		l.trials++
	}
	close(t.granted)
	return t
}

// A usage is what a request has used.
type usage struct {
	// cpu is the CPU time of the request, including the start of a replacement of its worker.
	cpu time.Duration
	// long: it took more than others wait for. Ended: its worker had to be ended. Recycled: its worker
	// had grown.
	long, ended, recycled bool
}

// endTrial records that a request is no longer tried: it is over, or its worker is not one of those of
// normal priority.
func (l *lanes) endTrial(t *turn) {
	if t.trial {
		t.trial = false
		l.trials--
	}
}

// done records the usage of a finished request.
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
	// A first overrun causes no rest. Otherwise new tenants could make the others rest forever.
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

// used returns the recent CPU time of the requests of a lane, in seconds.
func (l *lane) used(now time.Time) float64 {
	if l.busy == 0 {
		return 0
	}
	return l.busy * l.fade(now)
}

// overran reports whether requests of a tenant were recently killed: one counts for some minutes.
// Requests without a tenant do not count: they compile policies of the operators.
func (l *lane) overran(now time.Time) bool { return l.tenant != "" && l.overruns*l.fade(now) > 0.05 }

// rest returns how long no request of a lane may have a worker.
func (l *lanes) rest(lane *lane) time.Duration {
	now := l.now()
	if !lane.overran(now) {
		return 0
	}
	return max(l.restUntil.Sub(now), 0)
}

// fade returns the factor by which older usage counts now.
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

// limit returns how long a request of a lane may take: half as long for each recently killed
// request before it, but at least an eighth. Background jobs have all the time: what they find out
// about a policy must not depend on the policies before it.
func (l *lanes) limit(lane *lane, most time.Duration) time.Duration {
	if lane.background {
		return most
	}
	return most >> min(int(lane.overruns*lane.fade(l.now())+0.5), 3)
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
		l.waiting -= len(lane.waiting)
		lane.waiting = nil
	}
}

// lowered lists the tenants whose requests have the low priority, except background jobs.
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

package candidate

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/audit/queue"
	"github.com/usher-dev/usher/internal/deadline"
	"github.com/usher-dev/usher/internal/overrun"
)

const (
	// mostBytes limits the requests that wait in a lane, and mostOfOne those in one turn.
	mostBytes = 8 << 20
	mostOfOne = mostBytes / 2
	// quantum is how long evaluations of a turn take until it is that of others.
	quantum = 50 * time.Millisecond
	// slice is how long a lane works before it has to sleep.
	slice = time.Millisecond
	// gather is how long a lane without work waits after a request: it is answered meanwhile, and for those that come
	// until then nobody has to be woken.
	gather = 10 * time.Millisecond
	// mostLate is how many evaluations may be late in a lane before no other begins: each takes a processor.
	mostLate = 4
	// sampled is how many turns are compared to find one with much that waits.
	sampled = 16
	// mostSpare limits the empty queues that are kept.
	mostSpare = 16
)

// A lane evaluates candidates for one request after the other: either those of the cluster or those of
// namespaces, so that these cost those of the cluster nothing. Namespaces take turns, by the time that evaluations for
// their requests take, so that those of one that are slow cost the others nothing.
type lane struct {
	tenants  bool
	overruns *overrun.Watch
	hold     func(bytes int64) (release func(), ok bool)
	// share is the part of a processor that evaluations take on average, and timeout limits those for one request.
	share   float64
	timeout time.Duration
	ready   queue.Signal
	// rounds counts the requests: another candidate is the first for each.
	rounds int

	mu    sync.Mutex
	bytes int64
	// turns are those with requests that wait, or that have taken time which others have not had yet. fresh are those
	// with something left, others the rest; the next one is first.
	turns         map[string]*turn
	fresh, others []*turn
	// most is a turn for which much waits.
	most *turn
	// spare are empty queues of turns that have ended: a busy lane mostly has one request at a time.
	spare []*users
}

// users has the requests of a turn in a group for each user.
type users = queue.Queue[string, struct{}, *waiting]

// A turn is whose requests wait.
type turn struct {
	name    string
	waiting *users
	number  int
	bytes   int64
	// left is how long it lasts, and below 0 how long others have before.
	left time.Duration
}

// add has a request wait. It is false if it does not fit. dropped are requests of others that no longer wait, since
// they have more than their part.
func (l *lane) add(w *waiting) (dropped []*waiting, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.turns[w.turn]
	own := w.bytes
	if t != nil {
		own += t.bytes
	}
	if own > mostOfOne {
		return nil, false
	}
	for l.bytes+w.bytes > mostBytes {
		first := l.dropFor(own)
		if first == nil {
			return dropped, false
		}
		dropped = append(dropped, first)
	}
	w.release = func() {}
	if l.hold != nil {
		release, ok := l.hold(w.bytes)
		if !ok {
			return dropped, false
		}
		w.release = release
	}
	if t == nil {
		t = &turn{name: w.turn, waiting: l.queue(), left: quantum}
		l.turns[w.turn] = t
		l.fresh = append(l.fresh, t)
	}
	if i := l.restingAt(t); i >= 0 {
		l.others = slices.Delete(l.others, i, i+1)
		l.fresh = append(l.fresh, t)
	}
	w.of = t
	t.number++
	l.bytes += w.bytes
	t.bytes += w.bytes
	l.keepMost(t)
	t.waiting.Add(w.request.User.Name, struct{}{}, w, queue.Low)
	l.ready.Send()
	return dropped, true
}

// restingAt returns the place of a turn among the others if it has something left, and nothing has waited; -1 if not.
func (l *lane) restingAt(t *turn) int {
	if t.number > 0 || t.left <= 0 {
		return -1
	}
	return slices.Index(l.others, t)
}

// dropFor drops a request of a turn that has more than bytes; nil if none is found that has. The caller holds the
// lock, and somebody may wait for it: it looks at some turns, not at all.
func (l *lane) dropFor(bytes int64) *waiting {
	n := 0
	for _, t := range l.turns {
		l.keepMost(t)
		if n++; n == sampled {
			break
		}
	}
	if l.most == nil || l.most.bytes <= bytes {
		return nil
	}
	w := l.most.pop()
	if w != nil {
		l.give(w)
	}
	return w
}

// pop returns a request that waits; nil if none does.
func (t *turn) pop() *waiting {
	w, ok := t.waiting.Next()
	if !ok {
		return nil
	}
	t.number--
	return w
}

func (l *lane) keepMost(t *turn) {
	if l.most == nil || t.bytes > l.most.bytes {
		l.most = t
	}
}

// give returns the memory of a request. The caller holds the lock.
func (l *lane) give(w *waiting) {
	l.bytes -= w.bytes
	w.of.bytes -= w.bytes
	w.release()
}

// next returns the request that is next; nil if none waits.
func (l *lane) next() *waiting {
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		from := &l.fresh
		if len(*from) == 0 {
			from = &l.others
		}
		if len(*from) == 0 {
			return nil
		}
		t := (*from)[0]
		*from = slices.Delete(*from, 0, 1)
		if t.left <= 0 {
			t.left += quantum
			l.others = append(l.others, t)
			continue
		}
		if w := t.pop(); w != nil {
			return w
		}
		delete(l.turns, t.name)
		if len(l.spare) < mostSpare {
			l.spare, t.waiting = append(l.spare, t.waiting), nil
		}
	}
}

// queue returns an empty queue.
func (l *lane) queue() *users {
	last := len(l.spare) - 1
	if last < 0 {
		return queue.New[string, struct{}, *waiting]()
	}
	q := l.spare[last]
	l.spare = l.spare[:last]
	return q
}

// end says how long the evaluations for a request have taken.
func (l *lane) end(w *waiting, took time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.give(w)
	t := w.of
	if t.left -= took; t.left > 0 && t.number > 0 {
		l.fresh = slices.Insert(l.fresh, 0, t)
		return
	}
	l.others = append(l.others, t)
}

// run evaluates candidates for the requests that wait, until ctx is done.
func (l *lane) run(ctx context.Context, evaluate func(context.Context, *waiting)) {
	defer l.overruns.Close()
	var owed time.Duration
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.ready:
		}
		if !deadline.Sleep(ctx, gather) {
			return
		}
		for took, ok := l.step(ctx, evaluate); ok; took, ok = l.step(ctx, evaluate) {
			if owed += time.Duration(float64(took)/l.share) - took; owed < slice {
				continue
			}
			if !deadline.Sleep(ctx, owed) {
				return
			}
			owed = 0
		}
	}
}

// step evaluates candidates for the request that is next, and returns how long that took; false if none waits.
func (l *lane) step(ctx context.Context, evaluate func(context.Context, *waiting)) (took time.Duration, ok bool) {
	w := l.next()
	if w == nil {
		return 0, false
	}
	begin := time.Now()
	evaluate(ctx, w)
	took = time.Since(begin)
	l.end(w, took)
	return took, true
}

// stuck returns why no candidate is evaluated for a request of a user in a namespace; empty if they are. An
// evaluation that does not end costs its namespace, and not the others.
func (l *lane) stuck(user, namespace string) string {
	late := l.overruns.State().Late
	if len(late) >= mostLate {
		return fmt.Sprintf("it is not evaluated: %d evaluations of candidates have not ended", len(late))
	}
	if slices.ContainsFunc(late, func(o overrun.Overrun) bool {
		return o.Namespace == namespace && (namespace != "" || o.User == user)
	}) {
		return "it is not evaluated: an evaluation of a candidate for a request in this namespace has not ended"
	}
	return ""
}

// stuckFor is stuck for all requests that a candidate is for.
func (l *lane) stuckFor(of usher.PolicyRef) string {
	if of.Namespace == "" && len(l.overruns.State().Late) < mostLate {
		return ""
	}
	return l.stuck("", of.Namespace)
}

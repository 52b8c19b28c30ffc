package served

import (
	"container/heap"
	"context"
	"time"

	"github.com/usher-dev/usher/cmd/usher/internal/replica"
	"github.com/usher-dev/usher/internal/observe/recent"
)

const (
	// hold is how long a decision waits for earlier ones of other replicas, which write what they
	// have ten times a second.
	hold = 300 * time.Millisecond
	// startTimeout is how long replicas may take to show past decisions before those of others are
	// printed.
	startTimeout = 5 * time.Second
	// findEvery is how often replicas are looked for.
	findEvery = 10 * time.Second
)

// Follow passes on what replicas say, in the order of time: first the last decisions, then, after an item that is
// current, each new one, until ctx is done or an error stays. Replicas that get ready are followed, too. While pass
// does not return, little is kept: replicas count what is lost.
func (d *Decisions) Follow(ctx context.Context, set *replica.Set, all []*replica.Replica, pass func(Item) error) error {
	w := &watcher{of: d, set: set, pass: pass, items: make(chan Item, 256), followed: map[string]context.CancelFunc{}, waiting: map[string]bool{}}
	return w.run(ctx, all)
}

// A watcher follows all replicas.
type watcher struct {
	of    *Decisions
	set   *replica.Set
	pass  func(Item) error
	items chan Item
	// followed ends the followers of the replicas that there are.
	followed map[string]context.CancelFunc
	// waiting are the replicas that have not shown past decisions yet; nil once they are passed on.
	waiting map[string]bool
	pending pending
}

// run runs until ctx is done, or an error that stays.
func (w *watcher) run(ctx context.Context, all []*replica.Replica) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for _, r := range all {
		w.waiting[r.Name] = true
		w.follow(ctx, r, w.of.Last, w.of.Filter.Since)
	}
	found := make(chan []*replica.Replica)
	if !w.set.Named() {
		go w.find(ctx, found)
	}
	start, print := time.After(startTimeout), time.NewTimer(0)
	defer print.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-start:
			clear(w.waiting)
		case now := <-found:
			w.replace(ctx, now)
		case i := <-w.items:
			if i.err != nil {
				return i.err
			}
			w.take(i)
		case <-print.C:
		}
		if err := w.passDue(); err != nil {
			return err
		}
		if len(w.pending) > 0 && w.waiting == nil {
			print.Reset(time.Until(w.pending[0].due))
		}
	}
}

// follow begins to follow a replica.
func (w *watcher) follow(ctx context.Context, r *replica.Replica, last int, since time.Duration) {
	ctx, cancel := context.WithCancel(ctx)
	w.followed[r.Name] = cancel
	f := &follower{of: w.of, replica: r, items: w.items, last: last, since: since}
	go f.run(ctx)
}

// find looks for replicas from time to time. That they cannot be found now does not matter: those
// that are known are followed.
func (w *watcher) find(ctx context.Context, found chan<- []*replica.Replica) {
	ticker := time.NewTicker(findEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		all, err := w.set.Find(ctx)
		if err != nil {
			continue
		}
		select {
		case found <- all:
		case <-ctx.Done():
			return
		}
	}
}

// replace follows the replicas that there are now. A replica that has become ready is followed from
// its first decision on.
func (w *watcher) replace(ctx context.Context, all []*replica.Replica) {
	now := map[string]bool{}
	for _, r := range all {
		now[r.Name] = true
		if w.followed[r.Name] == nil {
			w.take(Item{Replica: r.Name, Notice: "is ready"})
			w.follow(ctx, r, recent.Size, 0)
		}
	}
	for name, cancel := range w.followed {
		if !now[name] {
			cancel()
			delete(w.followed, name)
			delete(w.waiting, name)
			w.take(Item{Replica: name, Notice: "is not ready any more", Away: true})
		}
	}
}

// take takes what a replica says.
func (w *watcher) take(i Item) {
	now := time.Now()
	switch {
	case i.Current:
		delete(w.waiting, i.Replica)
		return
	case i.Decision == nil:
		i.due = now
	case len(w.followed) > 1:
		i.due = now.Add(hold)
	default:
		i.due = now
	}
	heap.Push(&w.pending, i)
}

// passDue passes on what is due.
func (w *watcher) passDue() error {
	if w.waiting != nil {
		if len(w.waiting) > 0 {
			return nil
		}
		w.waiting = nil
		past := append(Newest(w.pending, w.of.Last), Item{Current: true})
		w.pending = nil
		for _, i := range past {
			if err := w.say(i); err != nil {
				return err
			}
		}
	}
	for now := time.Now(); len(w.pending) > 0 && !w.pending[0].due.After(now); {
		if err := w.say(heap.Pop(&w.pending).(Item)); err != nil {
			return err
		}
	}
	return nil
}

func (w *watcher) say(i Item) error {
	i.Replicas = len(w.followed)
	return w.pass(i)
}

// pending are items that are not passed on yet, the earliest first.
type pending []Item

// Len implements [heap.Interface].
func (p pending) Len() int { return len(p) }

// Less implements [heap.Interface].
func (p pending) Less(i, j int) bool { return p[i].time().Before(p[j].time()) }

// Swap implements [heap.Interface].
func (p pending) Swap(i, j int) { p[i], p[j] = p[j], p[i] }

// Push implements [heap.Interface].
func (p *pending) Push(x any) { *p = append(*p, x.(Item)) }

// Pop implements [heap.Interface].
func (p *pending) Pop() any {
	all := *p
	last := all[len(all)-1]
	*p = all[:len(all)-1]
	return last
}

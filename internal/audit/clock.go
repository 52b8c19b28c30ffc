package audit

import (
	"context"
	"time"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/audit/result"
)

const (
	// rereadPause is how long a kind is not read once more after it was.
	rereadPause = 30 * time.Second
	// returnPause is the same for objects that were not kept.
	returnPause = 5 * time.Minute
	// firstRetry and lastRetry are the pauses before what failed because of a fact is judged again.
	firstRetry = time.Minute
	lastRetry  = 30 * time.Minute
	// tick is how often the time of day is compared: the clock may be set.
	tick = time.Minute
)

// request has a kind read once more, when that is due. The caller holds the lock.
func (a *Auditor) request(k *kind) {
	if k.reading || k.requested {
		return
	}
	k.requested = true
	a.notify(a.clockWake)
}

// clock does what is due at a time, until ctx is done.
func (a *Auditor) clock(ctx context.Context) {
	checked := time.Now()
	for {
		now := time.Now()
		a.expire(checked, now)
		checked = now
		reread, wait := a.due(now)
		for _, of := range reread {
			a.options.Log.Info("the objects of a kind are read once more", "kind", of.Resource.String())
			a.options.Reread(of)
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-a.clockWake:
			timer.Stop()
		case <-timer.C:
		}
	}
}

// due returns the kinds that are to be read once more now, and how long until something else is due. It
// has what could not be judged judged again.
func (a *Auditor) due(now time.Time) (reread []result.Kind, wait time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	wait = tick
	for _, k := range a.ring {
		if k.omitted > 0 && !k.returns.After(now) && a.spare() {
			a.request(k)
		}
		switch {
		case !k.requested || k.called:
		case k.earliest.After(now):
			wait = min(wait, k.earliest.Sub(now))
		default:
			k.called = true
			reread = append(reread, k.of)
		}
	}
	if ends, _ := a.judge.Expiring(now); !ends.IsZero() {
		wait = min(wait, ends.Sub(now))
	}
	if next, waits := a.retryDue(now); waits {
		wait = min(wait, next)
	}
	return reread, max(wait, time.Millisecond)
}

// expire has the policies judged again from which exemptions have ended after one time and until
// another.
func (a *Auditor) expire(after, until time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for {
		ends, policies := a.judge.Expiring(after)
		if ends.IsZero() || ends.After(until) {
			return
		}
		after = ends
		a.epoch++
		for _, k := range a.ring {
			a.again(k, policies)
		}
	}
}

// again has a kind judged by some policies again.
func (a *Auditor) again(k *kind, policies []usher.PolicyRef) {
	found := false
	for _, ref := range policies {
		if s := k.slots[ref]; s != nil {
			s.epoch, k.epoch, found = a.epoch, a.epoch, true
		}
	}
	if !found {
		return
	}
	for _, p := range k.all {
		a.enqueue(k, p)
	}
}

// retries are what failed although it had facts: one that cannot be read may be readable later, and
// nobody may say so.
type retries struct {
	waiting map[*projection]*kind
	at      time.Time
	pause   time.Duration
}

func (r *retries) expect(k *kind, p *projection, now time.Time) {
	if r.waiting == nil {
		r.waiting = map[*projection]*kind{}
	}
	if len(r.waiting) == 0 {
		if now.Sub(r.at) > lastRetry {
			r.pause = 0
		}
		r.pause = min(max(2*r.pause, firstRetry), lastRetry)
		r.at = now.Add(r.pause)
	}
	r.waiting[p] = k
}

// retryDue has what failed judged again, if it is time, and returns how long that is to wait otherwise.
func (a *Auditor) retryDue(now time.Time) (wait time.Duration, waits bool) {
	r := &a.retry
	if len(r.waiting) == 0 {
		return 0, false
	}
	if r.at.After(now) {
		return r.at.Sub(now), true
	}
	for p, k := range r.waiting {
		if p.refs > 0 && p.uncertain && !k.removed {
			p.again = true
			a.enqueue(k, p)
		}
	}
	r.waiting = nil
	return 0, false
}

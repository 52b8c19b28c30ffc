package report

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/api/kcloudlabs/v1alpha1"
	"github.com/usher-dev/usher/internal/deadline"
	"github.com/usher-dev/usher/internal/replicas"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/internal/turns"
)

const (
	// The leader writes the status of at most batch policies, and of at most namespaceBatch of a namespace,
	// before it reads the state again. It
	// reads the state as soon as the snapshot changes, but not within roundGap of the last time;
	// every pollEvery while a change propagates, or pollSlowly if that takes long; and otherwise
	// every idleEvery.
	batch          = 200
	namespaceBatch = 20
	roundGap       = 500 * time.Millisecond
	pollEvery      = time.Second
	pollSlowly     = 5 * time.Second
	idleEvery      = 10 * time.Second
	// The status is read again after reloadFirst, because the previous leader may have written it
	// after this one had read it, and then every reloadEvery, in case someone changed it.
	reloadFirst = 30 * time.Second
	reloadEvery = 30 * time.Minute
	// A status that the API server rejects is written again after refusedFor. After refusalsInRow
	// consecutive rejections, the leader assumes that the others would be rejected, too.
	refusedFor    = time.Minute
	refusalsInRow = 10
	// When the API server does not answer, attempts are at most retryAtMost apart.
	retryAtMost = time.Minute
)

// lead writes status until ctx is done: another replica may lead then.
func (r *Reporter) lead(ctx context.Context) {
	var others sync.WaitGroup
	defer others.Wait()
	if verify := r.options.Verify; verify != nil {
		r.verified(Calls{State: CallsAwaited})
		others.Go(func() { verify(ctx, r.verified) })
	}
	if lead := r.options.Lead; lead != nil {
		others.Go(func() { lead(ctx) })
	}
	r.options.Log.Info("this replica writes policy status", "identity", r.options.Identity)
	l := &leader{
		Reporter: r, writer: newWriter(r.policies, r.options),
		term: r.replicas.Term(), seen: map[types.UID]sighting{},
		working: map[types.UID]working{}, uses: newUses(), counts: counts{}, events: flowcontrol.NewTokenBucketRateLimiter(eventsPerSecond, eventBurst), ownEvents: map[string]flowcontrol.RateLimiter{},
	}
	backoff := replicas.NewBackoff(retryAtMost)
	for ctx.Err() == nil {
		v := r.view()
		rest, err := l.round(ctx, v)
		if err == nil {
			backoff = replicas.NewBackoff(retryAtMost)
			deadline.Sleep(ctx, min(rest, roundGap))
			l.await(ctx, v, rest-roundGap)
			continue
		}
		if ctx.Err() == nil {
			r.options.Log.Warn("write policy status", "error", err)
		}
		deadline.Sleep(ctx, backoff.After(err))
	}
}

// A leader is one term of the replica that writes status. It starts from the status in the cluster:
// no state is passed from one leader to the next.
type leader struct {
	*Reporter
	*writer

	term   *replicas.Term
	others []replica
	viewed *view
	seen   map[types.UID]sighting
	// working is what has been written about failures, in this term.
	working map[types.UID]working
	// events limits those about all policies, and ownEvents those about the policies of a namespace.
	events    flowcontrol.RateLimiter
	ownEvents map[string]flowcontrol.RateLimiter
	// exempting are the exemptions in force here, and uses those of all replicas, in this term.
	exempting map[types.UID]*rule.ExemptionState
	uses      uses
	// evaluating are the candidates that are evaluated here, and counts those of all replicas, in this term.
	evaluating map[types.UID]*rule.CandidateState
	counts     counts
	// apart is the time since when replicas differ in a shard; zero if they do not.
	apart [shards]time.Time
}

// A sighting is the time since when the leader has known a version of a policy.
type sighting struct {
	generation, inForce int64

	since time.Time
}

// round writes statuses that are out of date, at most a batch of them, and returns how long to wait
// until the next round unless the snapshot changes.
func (l *leader) round(ctx context.Context, v *view) (time.Duration, error) {
	if err := l.reload(ctx, time.Now()); err != nil {
		return 0, err
	}
	if err := l.look(ctx); err != nil {
		return 0, err
	}
	l.sight(v, time.Now())
	due, rest := l.due(v, time.Now())
	err := l.write(ctx, due)
	for i := range due {
		if due[i].done {
			l.note(ctx, &due[i], time.Now())
		}
	}
	l.tell(ctx, v, time.Now())
	return rest, err
}

// note remembers what was written about a policy, and writes Events.
func (l *leader) note(ctx context.Context, w *write, now time.Time) {
	l.uses.written(w.policy.UID, now)
	l.counts.written(w.policy.UID, &w.status, now)
	if w.told != nil {
		l.announce(ctx, w.policy, w.told, nil)
	}
	if w.working == nil {
		return
	}
	noted := working{at: now, failed: l.working[w.policy.UID].failed}
	if w.working.Status == metav1.ConditionFalse {
		noted.count, noted.ignored, noted.failed = w.failure.Count, w.failure.Ignored, w.working.ObservedGeneration
	}
	l.working[w.policy.UID] = noted
	switch w.working.Status {
	case metav1.ConditionFalse:
		l.announce(ctx, w.policy, w.working, w.failure)
	case metav1.ConditionTrue:
		l.announce(ctx, w.policy, w.working, nil)
	case metav1.ConditionUnknown:
	}
}

// await waits until there is a newer view than v, or an exemption is used, or a
// candidate evaluated, for the first time.
func (l *leader) await(ctx context.Context, v *view, atMost time.Duration) {
	if atMost <= 0 {
		return
	}
	timer, ticker := time.NewTimer(atMost), time.NewTicker(pollEvery)
	defer timer.Stop()
	defer ticker.Stop()
	for !l.firstUsed(time.Now()) && !l.firstSeen() {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			return
		case <-v.superseded:
			return
		case <-ticker.C:
		}
	}
}

// sight records the versions of policies that are new in v.
func (l *leader) sight(v *view, now time.Time) {
	if v == l.viewed {
		return
	}
	seen := make(map[types.UID]sighting, len(v.Policies))
	for i := range v.Policies {
		p := &v.Policies[i]
		s := sighting{generation: p.Generation, inForce: p.InForce(), since: now}
		if last, ok := l.seen[p.UID]; ok && last.generation == s.generation && last.inForce == s.inForce {
			s = last
		} else {
			delete(l.refused, p.UID)
		}
		seen[p.UID] = s
	}
	maps.DeleteFunc(l.working, func(uid types.UID, _ working) bool { _, ok := seen[uid]; return !ok })
	for uid := range l.seen {
		if _, ok := seen[uid]; !ok {
			delete(l.known, uid)
			delete(l.refused, uid)
		}
	}
	l.viewed, l.seen = v, seen
}

// due returns the writes to make, at most a batch, and how long to wait after them.
func (l *leader) due(v *view, now time.Time) ([]write, time.Duration) {
	lagging := l.lagging(v, now)
	l.countUses(now)
	l.countCandidates()
	var due, failed []write
	served := l.anotherSays(replicas.Authorizes)
	authorization := l.authorization(now)
	rest := idleEvery
	failing := l.failing()
	for i := range v.Policies {
		p := &v.Policies[i]
		if p.UID == "" || !l.writable(p, now) {
			continue
		}
		since, n := l.seen[p.UID].since, shardOf(p)
		known := l.known[p.UID]
		o := outlook{lagging: lagging[n], known: now.Sub(since), apart: now.Sub(cmp.Or(l.apart[n], now)), unregistered: v.Unregistered, served: served}
		if kind, ok := api.KindCalled(p.Policy.Kind); ok && kind.Authorizes {
			o.calls = authorization
			if authorization.State == CallsAwaited && withdrawn(known.PolicyStatus) {
				// It is known already that what status says, that no server is there, is not true any more.
				o.calls = l.unasked()
			}
		} else if p.Admission {
			o.calls = v.calls
		}
		if own := l.statusOf(p.Policy.Kind); own != nil {
			w, again := own(known, p, o, now)
			rest = min(rest, again)
			if w != nil {
				w.changed = since
				due = append(due, *w)
			}
			continue
		}
		o.working = l.workingCondition(known.PolicyStatus, p, failing[p.UID], now)
		next, settled := next(known.PolicyStatus, p, o, now)
		if !settled {
			rest = min(rest, pollInterval(o.known))
		}
		if next == nil {
			continue
		}
		w := write{policy: p, status: status{PolicyStatus: *next}, changed: since, working: o.working, failure: failing[p.UID]}
		w.told = suspension(known.PolicyStatus, p, meta.FindStatusCondition(next.Conditions, v1alpha1.ConditionEnforced))
		if o.working != nil && onlyWorking(known.PolicyStatus, p, o, now) {
			failed = append(failed, w)
			continue
		}
		due = append(due, w)
	}
	failed, more := fair(failed, workingBatch)
	if more {
		rest = min(rest, pollEvery)
	}
	if due, more = fair(due, batch-len(failed)); more {
		rest = 0
	}
	return append(due, failed...), rest
}

// quiet is how long after the start of the replica that leads no request to authorize says nothing yet.
const quiet = time.Minute

// authorization returns what is known about requests to authorize: unlike admission, nothing makes API servers send
// one for us, and somebody has to configure each of them.
func (l *leader) authorization(now time.Time) Calls {
	switch since := now.Sub(l.replicas.Started); {
	case l.replicas.Says(replicas.Asked) || l.anotherSays(replicas.Asked):
		return Calls{State: CallsSeen}
	case since < quiet:
		return Calls{State: CallsAwaited}
	}
	return l.unasked()
}

// unasked says that nobody has asked to authorize anything since this replica started.
func (l *leader) unasked() Calls {
	return Calls{State: CallsUnknown, Message: fmt.Sprintf("none has asked to authorize anything since %s; 'kubectl auth can-i get pods --as nobody' makes one ask, and status says so within half a minute, if API servers are configured as docs/authorization.md says", l.replicas.Started.UTC().Format(time.RFC3339))}
}

// anotherSays reports whether a word is among those for what another live replica serves.
func (l *leader) anotherSays(word string) bool {
	return slices.ContainsFunc(l.others, func(r replica) bool { return r.Live && slices.Contains(r.Serves, word) })
}

// fair returns at most so many writes, and whether that leaves some out. Namespaces take turns, each with its
// newest change first: the author of one policy neither waits for thousands of others, nor for those of somebody
// who writes theirs again and again.
func fair(all []write, most int) (some []write, more bool) {
	slices.SortStableFunc(all, func(a, b write) int { return b.changed.Compare(a.changed) })
	some = turns.Of(all, namespaceBatch, func(w *write) string { return w.policy.Policy.Namespace })
	some = some[:min(len(some), most)]
	return some, len(some) < len(all)
}

// lagging returns the replicas that differ in each shard, and records since when.
func (l *leader) lagging(v *view, now time.Time) [shards][]string {
	lagging := differing(l.others, v.digests())
	for i := range l.apart {
		switch {
		case len(lagging[i]) == 0:
			l.apart[i] = time.Time{}
		case l.apart[i].IsZero():
			l.apart[i] = now
		}
	}
	return lagging
}

// onlyWorking reports whether only the condition Working is to be written.
func onlyWorking(known v1alpha1.PolicyStatus, p *rule.State, o outlook, now time.Time) bool {
	o.working = nil
	status, _ := next(known, p, o, now)
	return status == nil
}

func pollInterval(known time.Duration) time.Duration {
	if known > replicas.Expiry {
		return pollSlowly
	}
	return pollEvery
}

// A write is a status to be written.
type write struct {
	policy  *rule.State
	status  status
	changed time.Time
	// told is the condition to announce: that the policy is suspended or no longer is, or that an
	// exemption expires.
	told *metav1.Condition
	// working is the condition Working, if it changes, with the failure that it is about.
	working *metav1.Condition
	failure *rule.Failure
	// done says that the status was written.
	done bool
}

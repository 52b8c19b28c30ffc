package report

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/usher-dev/usher/api/kcloudlabs/v1alpha1"
	"github.com/usher-dev/usher/internal/deadline"
	"github.com/usher-dev/usher/internal/rule"
)

const (
	// The leader writes the status of at most batch policies before it reads the state again. It
	// reads the state as soon as the snapshot changes, but not within roundGap of the last time;
	// every pollEvery while a change propagates, or pollSlowly if that takes long; and otherwise
	// every idleEvery.
	batch      = 200
	roundGap   = 500 * time.Millisecond
	pollEvery  = time.Second
	pollSlowly = 5 * time.Second
	idleEvery  = 10 * time.Second
	// The status is read again after reloadFirst, because the previous leader may have written it
	// after this one had read it, and then every reloadEvery, in case someone changed it.
	reloadFirst = 30 * time.Second
	reloadEvery = 30 * time.Minute
	// A status that the API server rejects is written again after refusedFor. After refusalsInRow
	// consecutive rejections, the leader assumes that the others would be rejected, too.
	refusedFor    = time.Minute
	refusalsInRow = 10
	// A leader that has not renewed its Lease for termDuration is replaced, at most two jittered
	// retryPeriods later: a follower may have seen the last renewal late, and may check late. That
	// makes 17 s at most. The leader itself gives up after renewDeadline.
	termDuration  = 10 * time.Second
	renewDeadline = 7 * time.Second
	retryPeriod   = 1500 * time.Millisecond
	// When the API server does not answer, attempts are at most retryAtMost apart.
	retryAtMost = time.Minute
)

// campaign takes part in elections until ctx is done, and leads when elected.
func (r *Reporter) campaign(ctx context.Context) error {
	for ctx.Err() == nil {
		elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
			Lock: &resourcelock.LeaseLock{
				LeaseMeta:  metav1.ObjectMeta{Namespace: r.options.Namespace, Name: LeaderLease},
				Client:     r.kube.CoordinationV1(),
				LockConfig: resourcelock.ResourceLockConfig{Identity: r.options.Identity},
				Labels:     map[string]string{LeaseLabel: LeaseLeader},
			},
			LeaseDuration:   termDuration,
			RenewDeadline:   renewDeadline,
			RetryPeriod:     retryPeriod,
			ReleaseOnCancel: true,
			Callbacks: leaderelection.LeaderCallbacks{
				OnStartedLeading: r.lead,
				OnStoppedLeading: func() {},
				OnNewLeader:      r.observeLeader,
			},
			Name: LeaderLease,
		})
		if err != nil {
			return fmt.Errorf("elect the replica that writes policy status: %w", err)
		}
		elector.Run(ctx)
	}
	// The previous term may not have ended yet.
	r.leading.Lock()
	defer r.leading.Unlock()
	return nil
}

// observeLeader remembers who led before this replica.
func (r *Reporter) observeLeader(identity string) {
	if identity == r.options.Identity {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rival = identity
}

// Leader returns the identity of the replica that was last seen to lead; empty if none was.
func (r *Reporter) Leader() string {
	if r.Leads() {
		return r.options.Identity
	}
	return r.deposed()
}

// deposed returns the replica that led before this one and lost the Lease because it did not renew
// it; empty if there is none.
func (r *Reporter) deposed() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.rival
}

// lead writes status until ctx is done: another replica may lead then.
func (r *Reporter) lead(ctx context.Context) {
	r.leading.Lock()
	defer r.leading.Unlock()
	if ctx.Err() != nil {
		return
	}
	r.leads.Store(true)
	defer r.leads.Store(false)
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
		lease: leaseName(r.options.Identity), replicas: replicas{}, deposed: r.deposed(), seen: map[types.UID]sighting{},
		working: map[types.UID]working{}, uses: newUses(), events: flowcontrol.NewTokenBucketRateLimiter(eventsPerSecond, eventBurst),
	}
	backoff := newBackoff(retryAtMost)
	for ctx.Err() == nil {
		v := r.view()
		rest, err := l.round(ctx, v)
		if err == nil {
			backoff = newBackoff(retryAtMost)
			deadline.Sleep(ctx, min(rest, roundGap))
			l.await(ctx, v, rest-roundGap)
			continue
		}
		if ctx.Err() == nil {
			r.options.Log.Warn("write policy status", "error", err)
		}
		deadline.Sleep(ctx, delay(&backoff, err))
	}
}

// A leader is one term of the replica that writes status. It starts from the status in the cluster:
// no state is passed from one leader to the next.
type leader struct {
	*Reporter
	*writer

	lease    string
	replicas replicas
	// present says that the Lease of this replica was seen, with this UID, and removed that it was gone since.
	present, removed bool
	uid              types.UID
	// deposed led before, and counts as dead until it renews its own Lease.
	deposed string
	viewed  *view
	seen    map[types.UID]sighting
	// working is what has been written about failures, in this term.
	working map[types.UID]working
	events  flowcontrol.RateLimiter
	// exempting are the exemptions in force here, and uses those of all replicas, in this term.
	exempting map[types.UID]*rule.ExemptionState
	uses      uses
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
	if len(due) > batch {
		due, rest = due[:batch], 0
	}
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
	if w.told != nil {
		l.announce(ctx, w.policy, w.told, nil)
	}
	if w.working == nil {
		return
	}
	noted := working{at: now}
	if w.failure != nil {
		noted.count = w.failure.Count
	}
	l.working[w.policy.UID] = noted
	if w.working.Reason != v1alpha1.ReasonEdited {
		l.announce(ctx, w.policy, w.working, w.failure)
	}
}

// await waits until there is a newer view than v, or an exemption is used for the first time.
func (l *leader) await(ctx context.Context, v *view, atMost time.Duration) {
	if atMost <= 0 {
		return
	}
	timer, ticker := time.NewTimer(atMost), time.NewTicker(pollEvery)
	defer timer.Stop()
	defer ticker.Stop()
	for !l.firstUsed(time.Now()) {
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

// look reads the Leases of the other replicas, and deletes those of replicas that have been dead
// for long.
func (l *leader) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	// Version 0: the cache of the API server is recent enough.
	list, err := l.leases().List(ctx, metav1.ListOptions{
		LabelSelector: LeaseLabel + "=" + LeaseReplica, ResourceVersion: "0",
	})
	if err != nil {
		return fmt.Errorf("list leases of replicas: %w", err)
	}
	l.noticeRemoval(list.Items)
	for _, lease := range l.replicas.update(list.Items, l.lease, l.deposed, time.Now()) {
		err := l.leases().Delete(ctx, lease.Name, metav1.DeleteOptions{
			Preconditions: &metav1.Preconditions{UID: &lease.UID, ResourceVersion: &lease.ResourceVersion},
		})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("delete lease %s of a replica that is gone: %w", lease.Name, err)
		}
	}
	return nil
}

// noticeRemoval has the status read again if somebody deleted the Lease of this replica, which makes another one: who
// does that, such as usher uninstall, says in the status that nothing is enforced.
func (l *leader) noticeRemoval(leases []coordinationv1.Lease) {
	i := slices.IndexFunc(leases, func(lease coordinationv1.Lease) bool { return lease.Name == l.lease })
	if i < 0 {
		l.removed = l.present
		return
	}
	if uid := leases[i].UID; l.removed || l.present && uid != l.uid {
		l.stale = time.Time{}
	}
	l.present, l.removed, l.uid = true, false, leases[i].UID
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
	l.viewed, l.seen = v, seen
}

// due returns the writes to make, newest changes first, so that the author of one policy does not
// wait for thousands of others; and how long to wait after them.
func (l *leader) due(v *view, now time.Time) ([]write, time.Duration) {
	lagging := l.lagging(v, now)
	l.countUses(now)
	var due, failed []write
	rest := idleEvery
	failing := l.failing(now)
	for i := range v.Policies {
		p := &v.Policies[i]
		if p.UID == "" || !l.writable(p, now) {
			continue
		}
		since, n := l.seen[p.UID].since, shard(p.UID)
		known := l.known[p.UID]
		o := outlook{lagging: lagging[n], known: now.Sub(since), apart: now.Sub(cmp.Or(l.apart[n], now)), unregistered: v.Unregistered}
		if p.Admission {
			o.calls = v.calls
		}
		if l.exempts[p.Policy.Kind] {
			w, again := l.exemption(known, p, o, now)
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
	slices.SortStableFunc(due, func(a, b write) int { return b.changed.Compare(a.changed) })
	if len(failed) > workingBatch {
		failed, rest = failed[:workingBatch], min(rest, pollEvery)
	}
	return append(due, failed...), rest
}

// lagging returns the replicas that differ in each shard, and records since when.
func (l *leader) lagging(v *view, now time.Time) [shards][]string {
	lagging := l.replicas.lagging(v.digests(), now)
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
	if known > leaseDuration {
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

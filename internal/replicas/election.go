package replicas

import (
	"context"
	"fmt"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

const (
	// A leader that has not renewed its Lease for termDuration is replaced, at most two jittered
	// retryPeriods later: a follower may have seen the last renewal late, and may check late. That
	// makes 17 s at most. The leader itself gives up after renewDeadline.
	termDuration  = 10 * time.Second
	renewDeadline = 7 * time.Second
	retryPeriod   = 1500 * time.Millisecond
)

// Campaign takes part in elections until ctx is done, and calls lead when this replica is elected. It
// returns when lead has returned.
func (r *Registry) Campaign(ctx context.Context, lead func(context.Context)) error {
	for ctx.Err() == nil {
		elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
			Lock: &resourcelock.LeaseLock{
				LeaseMeta:  metav1.ObjectMeta{Namespace: r.options.Namespace, Name: LeaderLease},
				Client:     r.leases,
				LockConfig: resourcelock.ResourceLockConfig{Identity: r.options.Identity},
				Labels:     map[string]string{LeaseLabel: LeaseLeader},
			},
			LeaseDuration:   termDuration,
			RenewDeadline:   renewDeadline,
			RetryPeriod:     retryPeriod,
			ReleaseOnCancel: true,
			Callbacks: leaderelection.LeaderCallbacks{
				OnStartedLeading: func(ctx context.Context) { r.serveTerm(ctx, lead) },
				OnStoppedLeading: func() {},
				OnNewLeader:      r.observeLeader,
			},
			Name: LeaderLease,
		})
		if err != nil {
			return fmt.Errorf("elect the replica that leads: %w", err)
		}
		elector.Run(ctx)
	}
	// The previous term may not have ended yet.
	r.term.Lock()
	defer r.term.Unlock()
	return nil
}

// serveTerm leads until ctx is done: another replica may lead then.
func (r *Registry) serveTerm(ctx context.Context, lead func(context.Context)) {
	r.term.Lock()
	defer r.term.Unlock()
	if ctx.Err() != nil {
		return
	}
	r.leads.Store(true)
	defer r.leads.Store(false)
	lead(ctx)
}

// observeLeader remembers who led before this replica.
func (r *Registry) observeLeader(identity string) {
	if identity != r.options.Identity {
		r.rival.Store(&identity)
	}
}

// Leads reports whether this replica leads.
func (r *Registry) Leads() bool { return r.leads.Load() }

// Leader returns the identity of the replica that was last seen to lead; empty if none was.
func (r *Registry) Leader() string {
	if r.Leads() {
		return r.options.Identity
	}
	return r.deposed()
}

// deposed returns the replica that led before this one and lost the Lease because it did not renew
// it; empty if there is none.
func (r *Registry) deposed() string {
	if rival := r.rival.Load(); rival != nil {
		return *rival
	}
	return ""
}

// A Term is what a leader knows of the other replicas while it leads. Use [Registry.Term].
type Term struct {
	registry *Registry
	census   Census
	// present says that the Lease of this replica was seen, with this UID, and removed that it was gone since.
	present, removed bool
	uid              types.UID
}

// Term begins a term. The replica that led before counts as dead until it renews its own Lease.
func (r *Registry) Term() *Term {
	return &Term{registry: r, census: Census{Deposed: r.deposed(), Dated: true}}
}

// Peers returns the other replicas, and deletes the Leases of those that have been dead for long. Removed
// says that somebody has deleted the Lease of this replica, which makes another one.
func (t *Term) Peers(ctx context.Context) (peers []Peer, removed bool, err error) {
	// The cache of the API server is recent enough.
	leases, err := t.registry.list(ctx, "0")
	if err != nil {
		return nil, false, err
	}
	own, now := LeaseName(t.registry.options.Identity), time.Now()
	removed = t.noticeRemoval(leases, own)
	peers = t.census.Update(leases, own, now)
	for i := range peers {
		if now.Sub(peers[i].seen) > forgetAfter {
			if err := t.registry.forget(ctx, peers[i].lease); err != nil {
				return nil, removed, err
			}
		}
	}
	return peers, removed, nil
}

// noticeRemoval reports whether the Lease of this replica is another one than before.
func (t *Term) noticeRemoval(leases []coordinationv1.Lease, own string) bool {
	i := slices.IndexFunc(leases, func(lease coordinationv1.Lease) bool { return lease.Name == own })
	if i < 0 {
		t.removed = t.present
		return false
	}
	uid := leases[i].UID
	again := t.removed || t.present && uid != t.uid
	t.present, t.removed, t.uid = true, false, uid
	return again
}

func (r *Registry) forget(ctx context.Context, lease *coordinationv1.Lease) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	err := r.own().Delete(ctx, lease.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &lease.UID, ResourceVersion: &lease.ResourceVersion},
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete lease %s of a replica that is gone: %w", lease.Name, err)
	}
	return nil
}

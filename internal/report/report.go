// Package report writes the status of the policy objects in the cluster, for their authors.
//
// Every replica publishes in its own Lease what it enforces. An elected leader compares these and
// writes the status. A policy counts as enforced when every live replica enforces its newest
// version; dead replicas are ignored.
//
// What a replica publishes has the same size for one policy and for ten thousand: the policies are
// divided into 90 shards by their UID or namespace, and each shard has one digest of the generations of
// its policies in force. Equal digests mean equal shards. Different digests do not show which policy of
// the shard differs, so a policy may have to wait until the other policies of its shard have
// propagated, too. Once a version was seen as enforced, that is not revoked for this reason.
package report

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/replicas"
	"github.com/usher-dev/usher/internal/rule"
)

// Options configure a [Reporter]. Identity and Namespace are needed.
type Options struct {
	// Identity names this replica and no other one, such as the name of its pod.
	Identity string
	// Namespace is where the Leases are.
	Namespace string
	// Replicas are the replicas of the server; nil means those with Leases in Namespace.
	Replicas *replicas.Registry
	// WritesPerSecond limits how fast status is written; 0 means 50.
	WritesPerSecond int
	// Verify finds out whether API servers request decisions, while this replica leads, until ctx
	// is done. It calls tell with the results. Nil means that this is not verified: the Reporter
	// assumes that they do.
	Verify func(ctx context.Context, tell func(Calls))
	// Lead does what else only one replica does: it is called when this replica begins to lead, and
	// returns soon after ctx is done. Nil means nothing.
	Lead func(ctx context.Context)
	// Failing returns which policies fail at this replica; nil means none. Call [Reporter.Failed]
	// when there is a new one.
	Failing func() []rule.Failure
	// Await has Failing return a policy, too, once a request has met the version of it that is in force; nil means nothing.
	Await func(usher.PolicyRef)
	// Exemptions returns the exemptions in force at this replica, with their uses; nil means none.
	Exemptions func() []rule.ExemptionState
	// Candidates returns the candidates that this replica evaluates, with what it has counted; nil means none.
	Candidates func() []rule.CandidateState
	// Log may be nil.
	Log *slog.Logger
}

// A Reporter writes the status of policies, or publishes what this replica enforces to the one that
// does. Use [New].
//
// It needs these permissions: in its namespace get, list, create, update, patch and delete
// of leases; in the cluster get and list of the policy kinds, patch of their status, and
// create and patch of events.
type Reporter struct {
	policies dynamic.Interface
	kube     kubernetes.Interface
	options  Options

	replicas *replicas.Registry

	mu     sync.Mutex
	newest *view
	calls  Calls
	// failures counts the calls of Failed.
	failures int
}

// New returns a Reporter that has nothing to report until Observe is called.
func New(client dynamic.Interface, kube kubernetes.Interface, o Options) *Reporter {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.WritesPerSecond <= 0 {
		o.WritesPerSecond = 50
	}
	if o.Replicas == nil {
		o.Replicas = replicas.New(kube.CoordinationV1(), replicas.Options{Namespace: o.Namespace, Identity: o.Identity, Log: o.Log})
	}
	return &Reporter{policies: client, kube: kube, options: o, replicas: o.Replicas, newest: &view{superseded: make(chan struct{})}}
}

// Observe sets what this replica enforces from now on. It does not block. Do not change s
// afterwards.
func (r *Reporter) Observe(s Snapshot) {
	next := newView(s)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.supersede(next)
}

// Failed announces that the set of failing policies has changed. It does not block.
func (r *Reporter) Failed() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures++
	r.renew()
}

// verified stores what is known about the calls of API servers.
func (r *Reporter) verified(c Calls) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = c
	r.renew()
}

// renew publishes changes besides the snapshot; before the first snapshot it does nothing.
func (r *Reporter) renew() {
	if last := r.newest; last.digests != nil {
		r.supersede(&view{Snapshot: last.Snapshot, digests: last.digests, superseded: make(chan struct{})})
	}
}

func (r *Reporter) supersede(next *view) {
	last := r.newest
	next.calls, next.failures = r.calls, r.failures
	r.newest = next
	close(last.superseded)
	r.replicas.Changed()
}

func (r *Reporter) view() *view {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.newest
}

// Run reports until ctx is done, when it returns nil. The last replica that shuts down gracefully
// writes that policies are no longer enforced. Run starts with the first snapshot: a replica that
// does not know the policies neither publishes nor writes. An error means that it could not start;
// an API server that does not respond is not an error.
func (r *Reporter) Run(ctx context.Context) error {
	if r.options.Identity == "" || r.options.Namespace == "" {
		return errors.New("report policy status: the replica's identity and namespace are not known")
	}
	if first := r.view(); first.digests == nil {
		select {
		case <-ctx.Done():
			return nil
		case <-first.superseded:
		}
	}
	group, running := errgroup.WithContext(ctx)
	group.Go(func() error {
		r.replicas.Publish(running, r.statement)
		return nil
	})
	group.Go(func() error { return r.replicas.Campaign(running, r.lead) })
	err := group.Wait()
	r.withdraw(ctx)
	return err
}

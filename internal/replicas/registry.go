// Package replicas knows the replicas of a server. Each keeps a Lease of its own, with what it says to
// the others, and one of them is elected to lead.
package replicas

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	coordinationapply "k8s.io/client-go/applyconfigurations/coordination/v1"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"

	"github.com/usher-dev/usher/internal/deadline"
)

const (
	// LeaderLease is the name of the Lease by which the replica that leads is elected.
	LeaderLease = "usher-leader"
	// LeaseLabel is a label of all Leases of this package; its value is [LeaseLeader] or [LeaseReplica].
	LeaseLabel   = "usher.dev/lease"
	LeaseLeader  = "leader"
	LeaseReplica = "replica"
	// ServesAnnotation holds what a replica serves, as a list of words.
	ServesAnnotation = "usher.dev/serves"
	// Authorizes is the word for authorization webhooks.
	Authorizes = "authorizes"
	// Asked is the word for authorization webhooks that an API server has asked.
	Asked = "asked"
	// ListensAt begins the word for the address at which a replica listens, on its host.
	ListensAt = "listens:"

	fieldManager = "usher"
)

const (
	// A replica writes its Lease when what it says changes, but not within publishGap of the last time,
	// and otherwise every renewEvery.
	publishGap = time.Second
	renewEvery = 10 * time.Second
	// Expiry is how long a replica counts as alive whose Lease is not written. The Lease is deleted after
	// forgetAfter.
	Expiry = 30 * time.Second
	// Overdue is how old a Lease is that was to be renewed some seconds ago.
	Overdue     = renewEvery + 5*time.Second
	forgetAfter = 10 * time.Minute

	requestTimeout = 10 * time.Second
)

// Options configure a [Registry].
type Options struct {
	// Namespace is where the Leases are.
	Namespace string
	// Identity names this replica and no other one, such as the name of its pod; empty if the registry only
	// reads.
	Identity string
	// Log may be nil.
	Log *slog.Logger
}

// A Registry has the Leases of the replicas of one server. Use [New].
//
// It needs get, list, create, update, patch and delete of leases in its namespace; reading needs list.
type Registry struct {
	leases  coordinationclient.LeasesGetter
	options Options
	// Started is when this replica started.
	Started time.Time

	census Census

	mu sync.Mutex
	// words are what this replica serves, by topic.
	words map[string]string
	// wake has a message when what this replica says may have changed.
	wake chan struct{}

	leads atomic.Bool
	// rival is the replica that led before this one.
	rival atomic.Pointer[string]
	// term is held by what a leader does.
	term sync.Mutex
}

// New returns a Registry that has neither read nor written anything.
func New(leases coordinationclient.LeasesGetter, o Options) *Registry {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Registry{leases: leases, options: o, Started: time.Now(), words: map[string]string{}, wake: make(chan struct{}, 1)}
}

func (r *Registry) own() coordinationclient.LeaseInterface {
	return r.leases.Leases(r.options.Namespace)
}

// Peers returns the other replicas, as they are now, sorted by identity.
func (r *Registry) Peers(ctx context.Context) ([]Peer, error) {
	list, err := r.list(ctx, "")
	if err != nil {
		return nil, err
	}
	return r.census.Update(list, LeaseName(r.options.Identity), time.Now()), nil
}

// list reads the Leases of all replicas. Version 0 is that of the cache of the API server.
func (r *Registry) list(ctx context.Context, version string) ([]coordinationv1.Lease, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	list, err := r.own().List(ctx, metav1.ListOptions{LabelSelector: LeaseLabel + "=" + LeaseReplica, ResourceVersion: version})
	if err != nil {
		return nil, fmt.Errorf("list leases of replicas: %w", err)
	}
	return list.Items, nil
}

// Serves sets the words for what this replica serves from now on in a topic: other replicas see all
// topics as [Peer.Serves]. It does not block.
func (r *Registry) Serves(topic string, words ...string) {
	r.mu.Lock()
	r.words[topic] = strings.Join(words, " ")
	r.mu.Unlock()
	r.Changed()
}

// Says reports whether a word is among those for what this replica serves.
func (r *Registry) Says(word string) bool { return slices.Contains(strings.Fields(r.serves()), word) }

func (r *Registry) serves() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []string
	for _, topic := range slices.Sorted(maps.Keys(r.words)) {
		all = append(all, r.words[topic])
	}
	return strings.Join(all, " ")
}

// Changed announces that what this replica says may have changed. It does not block.
func (r *Registry) Changed() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// A Statement is what a replica says to the others.
type Statement struct {
	// Annotations are those of its Lease.
	Annotations map[string]string
	// Version changes when others have to read it soon. Other changes are published with the next renewal.
	Version string
}

// Publish keeps the Lease of this replica current until ctx is done, and then deletes it.
func (r *Registry) Publish(ctx context.Context, say func() Statement) {
	name := LeaseName(r.options.Identity)
	backoff := NewBackoff(renewEvery)
	for ctx.Err() == nil {
		said, serves := say(), r.serves()
		if err := r.apply(ctx, name, said.Annotations, serves); err != nil {
			if ctx.Err() == nil {
				r.options.Log.Warn("publish what this replica enforces", "lease", name, "error", err)
			}
			deadline.Sleep(ctx, backoff.After(err))
			continue
		}
		backoff = NewBackoff(renewEvery)
		deadline.Sleep(ctx, publishGap)
		r.await(ctx, renewEvery-publishGap, func() bool { return say().Version != said.Version || r.serves() != serves })
	}
	deleting, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout/5)
	defer cancel()
	if err := r.own().Delete(deleting, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		r.options.Log.Warn("delete the lease of this replica; it expires by itself", "lease", name, "error", err)
	}
}

// await waits until done returns true, but not for long.
func (r *Registry) await(ctx context.Context, atMost time.Duration, done func() bool) {
	timer := time.NewTimer(atMost)
	defer timer.Stop()
	for !done() {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			return
		case <-r.wake:
		}
	}
}

func (r *Registry) apply(ctx context.Context, name string, annotations map[string]string, serves string) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	lease := coordinationapply.Lease(name, r.options.Namespace).
		WithLabels(map[string]string{LeaseLabel: LeaseReplica}).
		WithAnnotations(annotations).WithAnnotations(map[string]string{ServesAnnotation: serves}).
		WithSpec(coordinationapply.LeaseSpec().
			WithHolderIdentity(r.options.Identity).
			WithLeaseDurationSeconds(int32(Expiry / time.Second)).
			WithAcquireTime(metav1.NewMicroTime(r.Started)).
			WithRenewTime(metav1.NowMicro()))
	_, err := r.own().Apply(ctx, lease, metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
	return err
}

// LeaseName returns the name of the Lease of a replica. It replaces characters that are invalid in
// names of Kubernetes objects, and then adds a hash, so that names stay different.
func LeaseName(identity string) string {
	const most = 200
	clean := strings.Trim(strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' {
			return c
		}
		return '-'
	}, strings.ToLower(identity)), "-")
	if clean != identity || len(clean) > most {
		clean = fmt.Sprintf("%.*s-%x", most, clean, sha256.Sum256([]byte(identity)))[:min(len(clean), most)+9]
	}
	return "usher-replica-" + clean
}

// A Backoff says how long to wait after errors of an API server: a second, and then longer each time.
type Backoff struct{ backoff wait.Backoff }

// NewBackoff returns a Backoff that waits no longer than most.
func NewBackoff(most time.Duration) Backoff {
	return Backoff{wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.1, Steps: 10, Cap: most}}
}

// After returns how long to wait after err: at least as long as the server requests.
func (b *Backoff) After(err error) time.Duration {
	d := b.backoff.Step()
	if seconds, ok := apierrors.SuggestsClientDelay(err); ok {
		d = max(d, time.Duration(seconds)*time.Second)
	}
	return d
}

package report

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	coordinationapply "k8s.io/client-go/applyconfigurations/coordination/v1"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"

	"github.com/usher-dev/usher/internal/deadline"
	"github.com/usher-dev/usher/internal/rule"
)

const (
	// LeaderLease is the name of the Lease by which the replica that writes is elected.
	LeaderLease = "usher-leader"
	// LeaseLabel is a label of all Leases of this package; its value is [LeaseLeader] or
	// [LeaseReplica].
	LeaseLabel   = "usher.dev/lease"
	LeaseLeader  = "leader"
	LeaseReplica = "replica"
	// EnforcedAnnotation holds what a replica enforces, and SnapshotAnnotation the number
	// of its snapshot.
	EnforcedAnnotation = "usher.dev/enforced"
	SnapshotAnnotation = "usher.dev/snapshot"
	// ServesAnnotation holds what a replica serves, as a list of words. Leases of versions that
	// know only the URL paths /mutate and /validate do not have it.
	ServesAnnotation = "usher.dev/serves"

	fieldManager = "usher"
)

const (
	// A replica writes its Lease when what it enforces changes, but not within
	// publishGap of the last time, and otherwise every renewEvery.
	publishGap = time.Second
	renewEvery = 10 * time.Second
	// A replica whose Lease has not been written for leaseDuration counts as dead. Its Lease is
	// deleted after forgetAfter.
	leaseDuration = 30 * time.Second
	forgetAfter   = 10 * time.Minute

	requestTimeout = 10 * time.Second
)

func (r *Reporter) leases() coordinationclient.LeaseInterface {
	return r.kube.CoordinationV1().Leases(r.options.Namespace)
}

// publish keeps the Lease of this replica current until ctx is done, and then deletes it.
func (r *Reporter) publish(ctx context.Context) error {
	name := leaseName(r.options.Identity)
	backoff := newBackoff(renewEvery)
	for ctx.Err() == nil {
		v := r.view()
		if err := r.apply(ctx, name, v); err != nil {
			if ctx.Err() == nil {
				r.options.Log.Warn("publish what this replica enforces", "lease", name, "error", err)
			}
			deadline.Sleep(ctx, delay(&backoff, err))
			continue
		}
		backoff = newBackoff(renewEvery)
		deadline.Sleep(ctx, publishGap)
		r.awaitChange(ctx, v, renewEvery-publishGap)
	}
	deleting, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout/5)
	defer cancel()
	if err := r.leases().Delete(deleting, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		r.options.Log.Warn("delete the lease of this replica; it expires by itself", "lease", name, "error", err)
	}
	return nil
}

// failing returns what this replica publishes about policies that fail.
func (r *Reporter) failing() string {
	if r.options.Failing == nil {
		return ""
	}
	return publishedFailures(r.options.Failing())
}

// awaitChange waits until this replica enforces or serves something else than in v, or another
// policy fails.
func (r *Reporter) awaitChange(ctx context.Context, v *view, atMost time.Duration) {
	timer := time.NewTimer(atMost)
	defer timer.Stop()
	serves, failures := v.serves, v.failures
	for published := v.digests(); v.digests() == published && v.serves == serves && v.failures == failures; v = r.view() {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			return
		case <-v.superseded:
		}
	}
}

func (r *Reporter) apply(ctx context.Context, name string, v *view) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	lease := coordinationapply.Lease(name, r.options.Namespace).
		WithLabels(map[string]string{LeaseLabel: LeaseReplica}).
		WithAnnotations(map[string]string{
			EnforcedAnnotation: v.digests().String(),
			SnapshotAnnotation: strconv.FormatInt(v.Generation, 10),
			ServesAnnotation:   v.serves,
			FailingAnnotation:  r.failing(),
			ExemptedAnnotation: publishedUses(r.exemptions()),
		}).
		WithSpec(coordinationapply.LeaseSpec().
			WithHolderIdentity(r.options.Identity).
			WithLeaseDurationSeconds(int32(leaseDuration / time.Second)).
			WithAcquireTime(metav1.NewMicroTime(r.started)).
			WithRenewTime(metav1.NowMicro()))
	_, err := r.leases().Apply(ctx, lease, metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
	return err
}

// leaseName returns the name of the Lease of a replica. It replaces characters that are invalid in
// names of Kubernetes objects, and then adds a hash, so that names stay different.
func leaseName(identity string) string {
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

// A replica is another replica as the leader sees it.
type replica struct {
	identity string
	renewed  metav1.MicroTime
	// seen is when, by the leader's clock, the current version of the Lease was first seen: clocks
	// of two machines are never compared.
	seen time.Time
	// enforces is zero, which confirms nothing, if the annotation is invalid.
	enforces digests
	failing  []rule.Failure
	// exempted are the uses of exemptions since the replica started.
	exempted []use
	started  metav1.MicroTime
}

// replicas maps the names of Leases to the other replicas.
type replicas map[string]*replica

// update applies a list of all Leases, and returns those to delete. A deposed replica has not
// written its Lease for some time already when it is first seen.
func (rs replicas) update(leases []coordinationv1.Lease, own, deposed string, now time.Time) []coordinationv1.Lease {
	present := make(map[string]bool, len(leases))
	var forgotten []coordinationv1.Lease
	for _, lease := range leases {
		if lease.Name == own || lease.Spec.RenewTime == nil {
			continue
		}
		present[lease.Name] = true
		known := rs[lease.Name]
		if known != nil && known.renewed.Equal(lease.Spec.RenewTime) {
			if now.Sub(known.seen) > forgetAfter {
				forgotten = append(forgotten, lease)
			}
			continue
		}
		enforces, _ := parseDigests(lease.Annotations[EnforcedAnnotation])
		seen := now
		if known == nil && deposed != "" && identity(lease) == deposed {
			seen = now.Add(-leaseDuration - 1)
		}
		rs[lease.Name] = &replica{
			identity: identity(lease), renewed: *lease.Spec.RenewTime, seen: seen, enforces: enforces,
			failing:  parseFailures(lease.Annotations[FailingAnnotation]),
			exempted: parseUses(lease.Annotations[ExemptedAnnotation]), started: startOf(lease),
		}
	}
	for name := range rs {
		if !present[name] {
			delete(rs, name)
		}
	}
	return forgotten
}

func identity(lease coordinationv1.Lease) string {
	if holder := lease.Spec.HolderIdentity; holder != nil && *holder != "" {
		return *holder
	}
	return lease.Name
}

// lagging returns, for each shard, the live replicas that do not enforce want in it, sorted.
func (rs replicas) lagging(want digests, now time.Time) [shards][]string {
	var lagging [shards][]string
	for _, r := range rs {
		if now.Sub(r.seen) > leaseDuration {
			continue
		}
		for i := range want {
			if r.enforces[i] != want[i] {
				lagging[i] = append(lagging[i], r.identity)
			}
		}
	}
	for i := range lagging {
		slices.Sort(lagging[i])
	}
	return lagging
}

// newBackoff returns a backoff that starts with a second and doubles with each attempt.
func newBackoff(most time.Duration) wait.Backoff {
	return wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.1, Steps: 10, Cap: most}
}

// delay returns how long to wait after err: longer each time, and at least as long as the server
// requests.
func delay(backoff *wait.Backoff, err error) time.Duration {
	d := backoff.Step()
	if seconds, ok := apierrors.SuggestsClientDelay(err); ok {
		d = max(d, time.Duration(seconds)*time.Second)
	}
	return d
}

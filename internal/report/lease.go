package report

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/usher-dev/usher/internal/replicas"
	"github.com/usher-dev/usher/internal/rule"
)

const (
	// EnforcedAnnotation holds what a replica enforces, and SnapshotAnnotation the number
	// of its snapshot.
	EnforcedAnnotation = "usher.dev/enforced"
	SnapshotAnnotation = "usher.dev/snapshot"

	fieldManager = "usher"

	requestTimeout = 10 * time.Second
)

// statement returns what this replica says to the others. The uses of exemptions can wait.
func (r *Reporter) statement() replicas.Statement {
	v := r.view()
	enforced, failing := v.digests().String(), ""
	if r.options.Failing != nil {
		failing = publishedFailures(v.mostPublished(r.options.Failing()))
	}
	return replicas.Statement{
		Annotations: map[string]string{
			EnforcedAnnotation:  enforced,
			SnapshotAnnotation:  strconv.FormatInt(v.Generation, 10),
			FailingAnnotation:   failing,
			ExemptedAnnotation:  publishedUses(r.exemptions()),
			EvaluatedAnnotation: publishedCounts(r.candidates()),
		},
		Version: fmt.Sprint(enforced, v.failures),
	}
}

// A replica is another replica as the leader sees it.
type replica struct {
	replicas.Peer

	// enforces is zero, which confirms nothing, if the annotation is invalid.
	enforces digests
	failing  []rule.Failure
	// exempted are the uses of exemptions since the replica started.
	exempted []use
	// evaluated are the counts of candidates.
	evaluated []evaluated
}

// look reads what the other replicas say.
func (l *leader) look(ctx context.Context) error {
	peers, removed, err := l.term.Peers(ctx)
	if removed {
		// Who deletes Leases, such as usher uninstall, says in the status that nothing is enforced: it is read again.
		l.stale = time.Time{}
	}
	if err != nil {
		return err
	}
	l.others = l.others[:0]
	for _, p := range peers {
		enforces, _ := parseDigests(p.Annotations[EnforcedAnnotation])
		l.others = append(l.others, replica{
			Peer: p, enforces: enforces, failing: parseFailures(p.Annotations[FailingAnnotation]), exempted: parseUses(p.Annotations[ExemptedAnnotation]),
			evaluated: parseCounts(p.Annotations[EvaluatedAnnotation]),
		})
	}
	return nil
}

// differing returns, for each shard, the live replicas that do not enforce want in it, in the order of others.
func differing(others []replica, want digests) [shards][]string {
	var differ [shards][]string
	for i := range others {
		if !others[i].Live {
			continue
		}
		for n := range want {
			if others[i].enforces[n] != want[n] {
				differ[n] = append(differ[n], others[i].Identity)
			}
		}
	}
	return differ
}

// A Told is what the Lease of a replica says about one policy.
type Told struct {
	Replica string
	Renewed time.Time
	// Agrees says that the replica enforces the same as most others, of the policies that it publishes together with
	// this one.
	Agrees bool
	// Failure is nil unless the policy fails there.
	Failure *rule.Failure
}

// Tell returns what the Leases of replicas say about a policy, in their order.
func Tell(leases []coordinationv1.Lease, p *rule.State) []Told {
	shard, counts := shardOf(p), map[uint64]int{}
	sums, told := make([]uint64, len(leases)), make([]Told, len(leases))
	for i := range leases {
		if said, ok := parseDigests(leases[i].Annotations[EnforcedAnnotation]); ok {
			sums[i], told[i].Agrees = said[shard], true
			counts[sums[i]]++
		}
	}
	most := 0
	for _, n := range counts {
		most = max(most, n)
	}
	for i := range leases {
		told[i].Replica, told[i].Agrees = leases[i].Name, told[i].Agrees && counts[sums[i]] == most
		if holder := leases[i].Spec.HolderIdentity; holder != nil {
			told[i].Replica = *holder
		}
		if renewed := leases[i].Spec.RenewTime; renewed != nil {
			told[i].Renewed = renewed.Time
		}
		failures := parseFailures(leases[i].Annotations[FailingAnnotation])
		if n := slices.IndexFunc(failures, func(f rule.Failure) bool { return f.UID == p.UID && f.Count > 0 }); n >= 0 {
			told[i].Failure = &failures[n]
		}
	}
	return told
}

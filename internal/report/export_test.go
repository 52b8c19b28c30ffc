package report

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/usher-dev/usher/api/kcloudlabs/v1alpha1"
	"github.com/usher-dev/usher/internal/replicas"
	"github.com/usher-dev/usher/internal/rule"
)

// Registry returns the replicas that a Reporter knows.
func (r *Reporter) Registry() *replicas.Registry { return r.replicas }

// Enforced is what a replica says in its Lease that enforces some policies.
func Enforced(policies []rule.State) string { return digest(policies).String() }

// alone returns a Reporter without an API server.
func alone(o Options) *Reporter {
	return &Reporter{options: o, replicas: replicas.New(nil, replicas.Options{})}
}

// Rounds returns what a leader computes in its first round and in the later ones, without
// the API server. Both return the number of statuses to be written.
func Rounds(s Snapshot) (first, later func() int) {
	l := &leader{Reporter: alone(Options{}), writer: newWriter(nil, Options{WritesPerSecond: 1}), seen: map[types.UID]sighting{}, uses: newUses()}
	v := newView(s)
	l.others = []replica{{Peer: replicas.Peer{Identity: "other", Live: true}, enforces: v.digests()}}
	l.sight(v, time.Now())
	due, _ := l.due(v, time.Now())
	written := map[types.UID]status{}
	for _, w := range due {
		written[w.policy.UID] = w.status
	}
	round := func(known map[types.UID]status) func() int {
		return func() int {
			l.known = known
			due, _ := l.due(v, time.Now())
			return len(due)
		}
	}
	return round(nil), round(written)
}

// Term is what a leader writes of one policy in a term, second by second, without the API
// server. It begins with a status.
func Term(ctx context.Context, known v1alpha1.PolicyStatus, p rule.State, begin time.Time, seconds int, failing func(second int) []rule.Failure) []v1alpha1.PolicyStatus {
	var current []rule.Failure
	o := Options{WritesPerSecond: 1, Failing: func() []rule.Failure { return current }}
	l := &leader{
		Reporter: alone(o), writer: newWriter(nil, o), seen: map[types.UID]sighting{},
		working: map[types.UID]working{}, uses: newUses(), events: flowcontrol.NewFakeNeverRateLimiter(),
	}
	l.known = map[types.UID]status{p.UID: {PolicyStatus: known}}
	v := newView(Snapshot{Policies: []rule.State{p}})
	var written []v1alpha1.PolicyStatus
	for second := range seconds {
		now := begin.Add(time.Duration(second) * time.Second)
		current = failing(second)
		l.sight(v, now)
		due, _ := l.due(v, now)
		for i := range due {
			l.known[p.UID] = due[i].status
			l.note(ctx, &due[i], now)
			written = append(written, due[i].status.PolicyStatus)
		}
	}
	return written
}

// A Written is a status of an exemption that a leader writes, with what it announces.
type Written struct {
	At       time.Duration
	LastUsed *metav1.Time
	Uses     int64
	Event    string
	v1alpha1.PolicyStatus
}

// StatusTerm is the status of a policy that a leader writes next, with what it announces, without the
// API server. It begins with a status.
func StatusTerm(known v1alpha1.PolicyStatus, p rule.State, now time.Time) Written {
	l := &leader{Reporter: alone(Options{}), writer: newWriter(nil, Options{WritesPerSecond: 1}), seen: map[types.UID]sighting{}, uses: newUses()}
	l.known = map[types.UID]status{p.UID: {PolicyStatus: known}}
	v := newView(Snapshot{Policies: []rule.State{p}})
	l.sight(v, now)
	due, _ := l.due(v, now)
	w := Written{}
	for i := range due {
		if w.PolicyStatus = due[i].status.PolicyStatus; due[i].told != nil {
			w.Event = due[i].told.Reason
		}
	}
	return w
}

// A Used is what one replica says about an exemption. The replica "" is the leader.
type Used struct {
	Replica string
	// Started tells processes of one name apart.
	Started time.Time
	Uses    int64
	Last    time.Time
}

// ExemptionTerm is what a leader writes of one exemption in a term, step by step, without the API
// server. It begins with what a status is known to say, and returns all.
func ExemptionTerm(ctx context.Context, known Written, p rule.State, x rule.ExemptionState, begin time.Time, step time.Duration, steps int, used func(time.Duration) []Used) []Written {
	l := &leader{
		Reporter: alone(Options{}), writer: newWriter(nil, Options{WritesPerSecond: 1}), seen: map[types.UID]sighting{},
		working: map[types.UID]working{}, uses: newUses(), events: flowcontrol.NewFakeNeverRateLimiter(),
	}
	own := x
	l.options.Exemptions = func() []rule.ExemptionState { return []rule.ExemptionState{own} }
	l.known = map[types.UID]status{p.UID: {PolicyStatus: known.PolicyStatus, LastUsed: known.LastUsed, Uses: known.Uses}}
	v := newView(Snapshot{Policies: []rule.State{p}})
	var written []Written
	for n := range steps {
		at := time.Duration(n) * step
		now := begin.Add(at)
		own, l.others = x, nil
		for _, u := range used(at) {
			if u.Replica == "" {
				own.Uses, own.LastUsed = u.Uses, u.Last
				continue
			}
			text := publishedUses([]rule.ExemptionState{{UID: x.UID, Uses: u.Uses, LastUsed: u.Last}})
			l.others = append(l.others, replica{Peer: replicas.Peer{Identity: u.Replica, Live: true, Started: u.Started}, enforces: v.digests(), exempted: parseUses(text)})
		}
		l.sight(v, now)
		due, _ := l.due(v, now)
		for i := range due {
			w := Written{At: at, LastUsed: due[i].status.LastUsed, Uses: due[i].status.Uses, PolicyStatus: due[i].status.PolicyStatus}
			if due[i].told != nil {
				w.Event = due[i].told.Reason
			}
			l.known[p.UID] = due[i].status
			l.note(ctx, &due[i], now)
			written = append(written, w)
		}
	}
	return written
}

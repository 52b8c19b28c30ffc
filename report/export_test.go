package report

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/usher-dev/usher/api/kcloudlabs/v1alpha1"
	"github.com/usher-dev/usher/rule"
)

// Rounds returns what a leader computes in its first round and in the later ones, without
// the API server. Both return the number of statuses to be written.
func Rounds(s Snapshot) (first, later func() int) {
	l := &leader{Reporter: &Reporter{}, writer: newWriter(nil, Options{WritesPerSecond: 1}), replicas: replicas{}, seen: map[types.UID]sighting{}}
	v := newView(s)
	l.replicas["other"] = &replica{seen: time.Now(), enforces: v.digests()}
	l.sight(v, time.Now())
	due, _ := l.due(v, time.Now())
	written := map[types.UID]v1alpha1.PolicyStatus{}
	for _, w := range due {
		written[w.policy.UID] = w.status
	}
	round := func(known map[types.UID]v1alpha1.PolicyStatus) func() int {
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
		Reporter: &Reporter{options: o}, writer: newWriter(nil, o), replicas: replicas{}, seen: map[types.UID]sighting{},
		working: map[types.UID]working{}, events: flowcontrol.NewFakeNeverRateLimiter(),
	}
	l.known = map[types.UID]v1alpha1.PolicyStatus{p.UID: known}
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
			written = append(written, due[i].status)
		}
	}
	return written
}

package report

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/usher-dev/usher/api/kcloudlabs/v1alpha1"
)

// Rounds returns what a leader computes in its first round and in the later ones, without
// the API server. Both return the number of statuses to be written.
func Rounds(s Snapshot) (first, later func() int) {
	l := &leader{writer: newWriter(nil, Options{WritesPerSecond: 1}), replicas: replicas{}, seen: map[types.UID]sighting{}}
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

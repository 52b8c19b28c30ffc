package report

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A Peer is another replica, as its Lease shows it.
type Peer struct {
	Identity string
	// Live says that the Lease was written within its duration.
	Live bool
	// Serves are the words of the Lease; nil means that it has none, because the replica has an
	// older version.
	Serves []string
	// Started is when the process began, zero if the Lease does not say; Renewed is when the Lease
	// was last written. Both are by the clock of the replica.
	Started, Renewed time.Time

	// seen is when, by the clock of this replica, the current version of the Lease was first seen.
	seen time.Time
}

// A census remembers the Leases of other replicas, by name.
type census struct {
	mu   sync.Mutex
	seen map[string]*Peer
}

// Peers returns the other replicas, as they are now, sorted by identity. A Lease that has not been
// written for its duration since this replica first saw it belongs to a dead replica: clocks of two
// machines are never compared.
func (r *Reporter) Peers(ctx context.Context) ([]Peer, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	list, err := r.leases().List(ctx, metav1.ListOptions{LabelSelector: LeaseLabel + "=" + LeaseReplica})
	if err != nil {
		return nil, fmt.Errorf("list leases of replicas: %w", err)
	}
	return r.peers.update(list.Items, leaseName(r.options.Identity), time.Now()), nil
}

func (c *census) update(leases []coordinationv1.Lease, own string, now time.Time) []Peer {
	c.mu.Lock()
	defer c.mu.Unlock()
	current := make(map[string]*Peer, len(leases))
	peers := make([]Peer, 0, len(leases))
	for i := range leases {
		lease := &leases[i]
		if lease.Name == own || lease.Spec.RenewTime == nil {
			continue
		}
		peer := peerOf(lease)
		peer.seen = now
		if known := c.seen[lease.Name]; known != nil && known.Renewed.Equal(peer.Renewed) {
			peer.seen = known.seen
		}
		peer.Live = now.Sub(peer.seen) <= leaseDuration
		current[lease.Name] = peer
		peers = append(peers, *peer)
	}
	c.seen = current
	slices.SortFunc(peers, func(a, b Peer) int { return cmp.Compare(a.Identity, b.Identity) })
	return peers
}

func peerOf(lease *coordinationv1.Lease) *Peer {
	peer := &Peer{Identity: identity(*lease), Renewed: lease.Spec.RenewTime.Time}
	if words, ok := lease.Annotations[ServesAnnotation]; ok {
		peer.Serves = append([]string{}, strings.Fields(words)...)
	}
	if lease.Spec.AcquireTime != nil {
		peer.Started = lease.Spec.AcquireTime.Time
	}
	return peer
}

package replicas

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
)

// A Peer is another replica, as its Lease shows it.
type Peer struct {
	Identity string
	// Live says that the Lease was written within its duration.
	Live bool
	// Serves are the words of the Lease.
	Serves []string
	// Started is when the process began, and Renewed when the Lease was last written. Both are by the clock
	// of the replica.
	Started, Renewed time.Time
	// Annotations are those of the Lease. Do not change them.
	Annotations map[string]string

	lease *coordinationv1.Lease
	// seen is when, by the clock of this replica, the current version of the Lease was first seen.
	seen time.Time
}

// A Census remembers when the Leases of other replicas were last renewed. A Lease that has not been written
// for its duration since it was first seen belongs to a dead replica: clocks of two machines are never
// compared. The zero value has seen none.
type Census struct {
	// Deposed is the identity of a replica that has not written its Lease for some time already when it
	// is first seen; empty if there is none.
	Deposed string
	// Dated says that a Lease which is seen for the first time is as old as it says. Without it, it counts as
	// written when it is seen, which no clocks that differ can spoil.
	Dated bool

	mu   sync.Mutex
	seen map[string]sighting
}

// A sighting is the version of a Lease, and when it was first seen.
type sighting struct{ renewed, at time.Time }

// Update returns the replicas other than the one whose Lease is called own, sorted by identity.
func (c *Census) Update(leases []coordinationv1.Lease, own string, now time.Time) []Peer {
	c.mu.Lock()
	defer c.mu.Unlock()
	current := make(map[string]sighting, len(leases))
	peers := make([]Peer, 0, len(leases))
	for i := range leases {
		lease := &leases[i]
		if lease.Name == own || lease.Spec.RenewTime == nil {
			continue
		}
		peer := peerOf(lease)
		known, ok := c.seen[lease.Name]
		switch {
		case ok && known.renewed.Equal(peer.Renewed):
			peer.seen = known.at
		case !ok && c.Deposed != "" && peer.Identity == c.Deposed:
			peer.seen = now.Add(-Expiry - 1)
		case !ok && c.Dated && peer.Renewed.Before(now):
			// A replica whose clock is slow is alive again with its next renewal.
			peer.seen = peer.Renewed
			if oldest := now.Add(-Expiry - 1); peer.seen.Before(oldest) {
				peer.seen = oldest
			}
		default:
			peer.seen = now
		}
		peer.Live = now.Sub(peer.seen) <= Expiry
		current[lease.Name] = sighting{peer.Renewed, peer.seen}
		peers = append(peers, peer)
	}
	c.seen = current
	slices.SortFunc(peers, func(a, b Peer) int { return cmp.Compare(a.Identity, b.Identity) })
	return peers
}

func peerOf(lease *coordinationv1.Lease) Peer {
	peer := Peer{
		Identity: lease.Name, Renewed: lease.Spec.RenewTime.Time, Serves: strings.Fields(lease.Annotations[ServesAnnotation]),
		Annotations: lease.Annotations, lease: lease,
	}
	if holder := lease.Spec.HolderIdentity; holder != nil && *holder != "" {
		peer.Identity = *holder
	}
	if lease.Spec.AcquireTime != nil {
		peer.Started = lease.Spec.AcquireTime.Time
	}
	return peer
}

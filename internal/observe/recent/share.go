package recent

import (
	"cmp"
	"hash/maphash"
	"slices"
	"sync/atomic"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/turns"
)

// A ring keeps the last decisions in a line of half its size. What falls out of that goes to a share
// of the other half, of which each namespace has one: many decisions in one namespace displace
// those of others from the line, and not from their shares. Namespaces share by hash, which
// nobody can predict.
const (
	shares    = 256
	shareSize = (Size - lineSize) / shares
	// shareBytes is how much memory the decisions of one share take at most.
	shareBytes = (MaxBytes - lineBytes) / shares
)

var seed = maphash.MakeSeed()

// shareOf returns the share of a request: that of its namespace. A request in none, or about
// access, which names any namespace, has the share of its user.
func shareOf(r *usher.Request) uint8 {
	owner := r.Namespace
	if owner == "" || r.Access != nil {
		owner = turns.OfUser(r.User.Name)
	}
	return uint8(maphash.String(seed, owner))
}

// A share has the last decisions of some namespaces that are not in the line any more. The zero share
// is empty.
type share struct {
	next  atomic.Uint64
	bytes atomic.Int64
	slots [shareSize]atomic.Pointer[kept]
}

// put puts a decision into the share, and removes the oldest ones if there are too many or they take
// too much memory.
func (s *share) put(k *kept) {
	at := s.next.Add(1) - 1
	s.replace(at, k)
	for i := at + 1; s.bytes.Load() > shareBytes && i < at+shareSize; i++ {
		s.replace(i, nil)
	}
}

func (s *share) replace(at uint64, k *kept) {
	n := k.size()
	if before := s.slots[at%shareSize].Swap(k); before != nil || k != nil {
		s.bytes.Add(n - before.size())
	}
}

// shared returns the decisions of shares with sequence numbers from one on and before another, in
// order.
func (r *Ring) shared(from, before uint64) []*kept {
	var all []*kept
	for i := range r.shares {
		for j := range r.shares[i].slots {
			if k := r.shares[i].slots[j].Load(); k != nil && k.sequence >= from && k.sequence < before {
				all = append(all, k)
			}
		}
	}
	slices.SortFunc(all, func(a, b *kept) int { return cmp.Compare(a.sequence, b.sequence) })
	return all
}

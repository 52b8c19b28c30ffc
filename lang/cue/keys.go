package cue

import (
	"fmt"
	"hash/maphash"
	"sync"
)

// A keySet counts the different texts that CUE has been given to remember. Of each it
// keeps a hash.
type keySet struct {
	max  int
	seed maphash.Seed

	mu   sync.RWMutex
	seen map[uint64]struct{}
}

func newKeySet(max int) keySet {
	return keySet{max: max, seed: maphash.MakeSeed(), seen: map[uint64]struct{}{}}
}

func (k *keySet) hash(text string) uint64 { return maphash.String(k.seed, text) }

func (k *keySet) len() int {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return len(k.seen)
}

// admit counts the texts with these hashes. When they would be too many it counts none
// of them.
func (k *keySet) admit(hashes []uint64) error {
	fresh := k.unseen(hashes)
	if len(fresh) == 0 {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.seen)+len(fresh) > k.max {
		return fmt.Errorf("%w: its field names would make more than %d different ones since the start",
			ErrTooLarge, k.max)
	}
	for _, hash := range fresh {
		k.seen[hash] = struct{}{}
	}
	return nil
}

func (k *keySet) unseen(hashes []uint64) []uint64 {
	k.mu.RLock()
	defer k.mu.RUnlock()
	var fresh []uint64
	for _, hash := range hashes {
		if _, ok := k.seen[hash]; !ok {
			fresh = append(fresh, hash)
		}
	}
	return fresh
}

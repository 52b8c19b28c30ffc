package store

import (
	"slices"

	usher "github.com/usher-dev/usher"
)

// policies are those that judge a kind. Each keeps its number as long as it is in force.
type policies struct {
	view *view
	// last is the highest number so far.
	last uint32
	// epochs are those in which policies changed last, by number, and epoch is the newest.
	epochs map[uint32]uint64
	epoch  uint64
	newer  newer
}

// A newer is the policies that are newer than an epoch.
type newer struct {
	from, to uint64
	policies map[uint32]bool
}

// A view has the policies of a kind by number. It is immutable.
type view struct {
	numbers map[usher.PolicyRef]uint32
	refs    map[uint32]usher.PolicyRef
	// ordered has them in the order of results, and ranks are the positions there.
	ordered []usher.PolicyRef
	ranks   map[uint32]int
}

// replace replaces the policies, and reports whether some are gone.
func (p *policies) replace(refs, changed []usher.PolicyRef, epoch uint64) (gone bool) {
	before, epochs := p.view.numbers, make(map[uint32]uint64, len(refs))
	v := &view{numbers: make(map[usher.PolicyRef]uint32, len(refs)), refs: make(map[uint32]usher.PolicyRef, len(refs)), ranks: make(map[uint32]int, len(refs))}
	for _, ref := range refs {
		number, known := before[ref]
		if known {
			epochs[number] = p.epochs[number]
		} else {
			p.last++
			number = p.last
			epochs[number], p.epoch = epoch, epoch
		}
		v.numbers[ref], v.refs[number] = number, ref
	}
	v.ordered = slices.SortedFunc(slices.Values(refs), compareRefs)
	for rank, ref := range v.ordered {
		v.ranks[v.numbers[ref]] = rank
	}
	for ref := range before {
		gone = gone || v.numbers[ref] == 0
	}
	p.view, p.epochs = v, epochs
	p.renew(changed, epoch)
	return gone
}

// renew notes that policies have changed, and reports whether some of them judge the kind.
func (p *policies) renew(changed []usher.PolicyRef, epoch uint64) bool {
	found := false
	for _, ref := range changed {
		if number, known := p.view.numbers[ref]; known {
			p.epochs[number], p.epoch, found = epoch, epoch, true
		}
	}
	return found
}

func (p *policies) clear() { p.view, p.epochs = &view{}, nil }

// since returns the policies that are newer than an epoch, by number: the same map for the same epochs.
func (p *policies) since(epoch uint64) map[uint32]bool {
	if p.newer.policies == nil || p.newer.from != epoch || p.newer.to != p.epoch {
		p.newer = newer{from: epoch, to: p.epoch, policies: map[uint32]bool{}}
		for number, changed := range p.epochs {
			if changed > epoch {
				p.newer.policies[number] = true
			}
		}
	}
	return p.newer.policies
}

package authz

import (
	"math/bits"
	"slices"
)

// A set is a set of rules: a sorted list while it is small, else a bitset.
type set struct {
	ids  []int32
	bits []uint64
	size int
}

// add adds a rule whose index is not lower than those before.
func (s *set) add(id int32) {
	if n := len(s.ids); n > 0 && s.ids[n-1] == id {
		return
	}
	s.ids = append(s.ids, id)
}

// arrange turns a list into a bitset if that takes less memory.
func (s *set) arrange(words int) {
	s.size = len(s.ids)
	if s.size <= 2*words {
		return
	}
	s.bits = make([]uint64, words)
	for _, id := range s.ids {
		s.bits[id>>6] |= 1 << (id & 63)
	}
	s.ids = nil
}

// appendTo appends the rules to dst.
func (s *set) appendTo(dst []int32) []int32 {
	for i, word := range s.bits {
		for ; word != 0; word &= word - 1 {
			dst = append(dst, int32(i<<6+bits.TrailingZeros64(word)))
		}
	}
	return append(dst, s.ids...)
}

// unite adds the rules to a bitset.
func (s *set) unite(sum []uint64) {
	for i, word := range s.bits {
		sum[i] |= word
	}
	for _, id := range s.ids {
		sum[id>>6] |= 1 << (id & 63)
	}
}

// A work holds the buffers of one lookup: the sets of each dimension for the request.
type work struct {
	// rules is the number of rules.
	rules int
	sets  []*set
	spans []span
	few   []int32
	// sum is the union of the sets of one dimension, product the intersection of all dimensions.
	sum, product []uint64
}

// A span is the range of sets of one dimension, and the total of their rules.
type span struct {
	from, to, size int
}

func (w *work) begin() { w.sets, w.spans = w.sets[:0], w.spans[:0] }

func (w *work) use(s *set) {
	if s != nil && s.size > 0 {
		w.sets = append(w.sets, s)
	}
}

// end ends a dimension. A dimension with every rule is ignored.
func (w *work) end() {
	d := span{to: len(w.sets)}
	if n := len(w.spans); n > 0 {
		d.from = w.spans[n-1].to
	}
	for _, s := range w.sets[d.from:] {
		if s.size == w.rules {
			w.sets = w.sets[:d.from]
			return
		}
		d.size += s.size
	}
	w.spans = append(w.spans, d)
}

// fewest returns the rules of the dimension with the fewest rules, in ascending order, if these are
// few.
func (w *work) fewest() ([]int32, bool) {
	best := span{size: max(few, len(w.sum)/8) + 1}
	for _, d := range w.spans {
		if d.size < best.size {
			best = d
		}
	}
	if best.to == 0 && best.size > 0 {
		return nil, false
	}
	w.few = w.few[:0]
	for _, s := range w.sets[best.from:best.to] {
		w.few = s.appendTo(w.few)
	}
	if best.to-best.from > 1 {
		slices.Sort(w.few)
		w.few = slices.Compact(w.few)
	}
	return w.few, true
}

// combine returns the rules that are in the sets of every dimension, as a bitset.
func (w *work) combine() []uint64 {
	if len(w.spans) == 0 {
		for i := range w.rules {
			w.product[i>>6] |= 1 << (i & 63)
		}
		return w.product
	}
	for i, d := range w.spans {
		into := w.sum
		if i == 0 {
			into = w.product
		}
		sets := w.sets[d.from:d.to]
		if i > 0 && len(sets) == 1 && sets[0].bits != nil {
			intersect(w.product, sets[0].bits)
			continue
		}
		clear(into)
		for _, s := range sets {
			s.unite(into)
		}
		if i > 0 {
			intersect(w.product, w.sum)
		}
	}
	return w.product
}

func intersect(product, with []uint64) {
	with = with[:len(product)]
	for i := range product {
		product[i] &= with[i]
	}
}

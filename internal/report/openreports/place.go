package openreports

import (
	"maps"
	"slices"
	"time"

	"github.com/usher-dev/usher/internal/audit/result"
)

// perReport is the most results of a report.
const perReport = 100

// place decides which results are in which report: those that stay do not move, and those that are
// new take the place of others, so that a change rewrites few reports.
func (s *space) place(wanted map[key]*Result, kept map[key]bool, now time.Time) {
	changed := map[int]bool{}
	for k, p := range s.results {
		if wanted[k] == nil && !kept[k] {
			changed[p.slice] = true
			delete(s.results, k)
		}
	}
	fill := s.fill()
	for _, k := range s.unplaced(wanted) {
		n := s.vacancy(fill, changed)
		fill[n]++
		changed[n] = true
		p := s.results[k]
		if p == nil {
			p = &placement{since: now.Unix()}
			s.results[k] = p
		}
		p.slice, p.kind, p.status, p.kept = n, kindOf(wanted[k]), wanted[k].Result, false
	}
	for k := range wanted {
		s.results[k].kept = false
	}
	if len(kept) == 0 {
		s.compact(fill)
	}
	if len(fill) == 0 && s.counts != (result.Summary{}) {
		s.vacancy(fill, changed)
	}
}

// unplaced returns the results that are in no report yet, in the order of their reports.
func (s *space) unplaced(wanted map[key]*Result) []key {
	var unplaced []key
	for k := range wanted {
		if p := s.results[k]; p == nil || p.slice == 0 {
			unplaced = append(unplaced, k)
		}
	}
	slices.SortFunc(unplaced, func(a, b key) int {
		if c := compareResults(wanted[a], wanted[b]); c != 0 {
			return c
		}
		return compareKeys(a, b)
	})
	return unplaced
}

// vacancy returns a slice for one more result: preferably one that changes in any case. It adds
// one if all are full.
func (s *space) vacancy(fill map[int]int, changed map[int]bool) int {
	best := 0
	for _, n := range slices.Sorted(maps.Keys(fill)) {
		if fill[n] < perReport && (best == 0 || changed[n] && !changed[best]) {
			best = n
		}
	}
	if best != 0 {
		return best
	}
	for best = 1; s.slices[best] != nil || s.taken[best]; {
		best++
	}
	s.slices[best] = &slice{}
	fill[best] = 0
	return best
}

// compact moves the results of the last slices to others, if half of their places are free.
func (s *space) compact(fill map[int]int) {
	for total := len(s.results); len(fill) > 1 && 2*total <= (len(fill)-1)*perReport; {
		last := slices.Max(slices.Collect(maps.Keys(fill)))
		moved := s.in(last)
		delete(fill, last)
		for _, k := range moved {
			n := s.vacancy(fill, nil)
			fill[n]++
			s.results[k].slice = n
		}
	}
}

package store

import "github.com/usher-dev/usher/internal/audit/result"

// Stats are figures of a [Store], for metrics.
type Stats struct {
	// Results counts the results about all objects that are kept; those that are omitted are errors.
	Results result.Summary
	// Evaluations counts how often a projection was judged.
	Evaluations uint64
	// Used is the memory of what is kept, in bytes, and Limit how much it may be.
	Used, Limit int64
}

// Stats returns the figures so far. It goes through all that is kept, and builds no lists.
func (s *Store) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := Stats{Evaluations: s.evaluations, Used: s.memory.used, Limit: s.memory.limit}
	for _, k := range s.kinds {
		tallies := map[*tally]result.Summary{}
		all.Results.Error += k.omitted
		if k.plan != nil && k.reading.err != nil {
			all.Results.Error += len(k.policies.view.refs)
		}
		for _, p := range k.all {
			if p.assessment == nil {
				for _, shown := range p.previous {
					all.Results.Merge(shown.summary(k.policies.view, tallies))
				}
				continue
			}
			all.Results.Merge(times(p.assessment.summary(k.policies.view, tallies), int(p.refs)))
		}
	}
	return all
}

func times(s result.Summary, n int) result.Summary {
	return result.Summary{Pass: n * s.Pass, Fail: n * s.Fail, Warn: n * s.Warn, Error: n * s.Error, Skip: n * s.Skip}
}

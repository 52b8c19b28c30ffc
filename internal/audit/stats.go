package audit

import (
	"time"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/audit/result"
)

// Stats are figures of an [Auditor], for metrics.
type Stats struct {
	// Results counts the results about all objects that are kept; those that are omitted are errors.
	Results result.Summary
	// Evaluations counts how often a part of objects was judged, and CPU is what reading and judging
	// have taken, with time spent waiting for facts.
	Evaluations uint64
	CPU         time.Duration
	// Used is the memory of what is kept, in bytes, and Limit how much it may be.
	Used, Limit int64
}

// Stats returns the figures so far. It goes through all that is kept, and builds no lists.
func (a *Auditor) Stats() Stats {
	s := Stats{CPU: a.pacer.total()}
	a.mu.Lock()
	defer a.mu.Unlock()
	s.Evaluations, s.Used, s.Limit = a.evaluations, a.used, a.options.Memory
	for _, k := range a.ring {
		quiets := map[*quiet]result.Summary{}
		s.Results.Error += k.omitted
		if k.plan != nil && k.err != nil {
			s.Results.Error += len(k.view.refs)
		}
		for _, p := range k.all {
			if p.row == nil {
				// Its objects show what was said before.
				for _, shown := range p.waiting {
					s.Results.Merge(shown.summary(k.view, quiets))
				}
				continue
			}
			s.Results.Merge(times(p.row.summary(k.view, quiets), int(p.refs)))
		}
	}
	return s
}

// Policies returns the policies in force that are for objects of a kind, in order of evaluation.
func (a *Auditor) Policies(of result.Kind) []usher.PolicyRef {
	a.mu.Lock()
	j := a.judge
	a.mu.Unlock()
	if p := j.plan(of); p != nil {
		return p.Policies()
	}
	return nil
}

// summary counts all results; quiets has those that were counted before.
func (r *row) summary(v *view, quiets map[*quiet]result.Summary) result.Summary {
	counts, known := quiets[r.quiet]
	if !known {
		counts = r.quiet.summary(v)
		quiets[r.quiet] = counts
	}
	for _, l := range r.loud {
		if _, known := v.refs[l.slot]; known {
			counts.Merge(l.said.counts)
		}
	}
	return counts
}

func times(s result.Summary, n int) result.Summary {
	return result.Summary{Pass: n * s.Pass, Fail: n * s.Fail, Warn: n * s.Warn, Error: n * s.Error, Skip: n * s.Skip}
}

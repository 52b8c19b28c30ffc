package serve

import (
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/observe/metrics"
)

// A counted returns what a replica has counted.
type counted struct {
	exemptions func() []rule.ExemptionState
	candidates func() []rule.CandidateState
}

// candidates returns the candidates for the metrics.
func candidates(states []rule.CandidateState) []metrics.Candidate {
	all := make([]metrics.Candidate, 0, len(states))
	for i := range states {
		n := &states[i].Counts
		if states[i].NotEffective != "" {
			continue
		}
		all = append(all, metrics.Candidate{Ref: states[i].Ref, Counts: map[string]int64{
			"seen": n.Seen, "skipped": n.Skipped, "denied": n.NewlyDenied, "allowed": n.NewlyAllowed, "warned": n.Warned, "changed": n.Changed, "error": n.Errors, "no_opinion": n.NoOpinion,
		}})
	}
	return all
}

// unevaluated returns which candidates are not evaluated, and why.
func unevaluated(states []rule.CandidateState) []string {
	var all []string
	for i := range states {
		if why := states[i].NotEffective; why != "" {
			all = append(all, states[i].Ref.String()+": "+why)
		}
	}
	return all
}

// showCounts has the metrics show what is counted of exemptions and candidates.
func (s *Server) showCounts() {
	s.metrics.Exemptions(func() []metrics.Exemption { return exemptions(s.live.Exemptions()) })
	s.metrics.Candidates(func() []metrics.Candidate { return candidates(s.live.Candidates()) })
}

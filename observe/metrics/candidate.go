package metrics

import usher "github.com/usher-dev/usher"

// A Candidate is a policy candidate that is evaluated, and what was counted of its newest version, by
// result: seen, skipped, denied, allowed, warned, changed, no_opinion or error.
type Candidate struct {
	Ref    usher.PolicyRef
	Counts map[string]int64
}

// Candidates adds metrics about policy candidates to m. The function is called whenever metrics are read.
func (m *Metrics) Candidates(all func() []Candidate) {
	m.written.candidates.show(func() *[]Candidate {
		current := all()
		return &current
	})
}

func candidateRows() []row[[]Candidate] {
	return []row[[]Candidate]{
		{
			"candidate_decisions_total", "Decisions that a policy candidate was evaluated for, by result: seen (all of them), denied (newly), allowed (newly), warned (newly), changed (another patch), no_opinion (of requests to authorize) and error; and skipped, which it was not evaluated for. It begins again with each version.",
			[]string{"candidate_kind", "candidate_namespace", "candidate_name", "result"},
			func(all *[]Candidate, send sender) {
				for _, c := range *all {
					for result, n := range c.Counts {
						send(float64(n), c.Ref.Kind, c.Ref.Namespace, c.Ref.Name, result)
					}
				}
			},
		},
	}
}

package serve

import (
	"strings"
	"time"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/live"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/observe/metrics"
)

// count updates the metrics of policies in force.
func count(m *metrics.Metrics, l *live.Live, status live.Status) {
	snapshot := metrics.Snapshot{
		Generation: status.Generation,
		Since:      status.Since,
		Policies:   status.Policies,
		Known:      status.Known,
		Rules:      status.Rules,
		Problems:   map[string]int{},
		Pending:    len(status.Pending),
		Surplus:    len(status.Surplus),
		Suspended:  map[string]int{},
		Proofs:     map[string]int{},
	}
	for _, ref := range status.Suspended {
		snapshot.Suspended[ref.Kind]++
	}
	for state, policies := range status.Proofs {
		snapshot.Proofs[strings.ToLower(string(state))] = policies
	}
	for _, r := range l.Rules() {
		snapshot.InForce = append(snapshot.InForce, r.Policy)
	}
	for _, r := range l.Access().Rules() {
		snapshot.InForce = append(snapshot.InForce, r.Policy.Ref)
	}
	for _, p := range live.Problems(l) {
		snapshot.Problems[string(p.Severity)]++
		if p.Policy == (usher.PolicyRef{}) {
			snapshot.SourceErrors++
		}
	}
	m.Snapshot(snapshot)
}

// exemptions returns the exemptions for the metrics.
func exemptions(states []rule.ExemptionState) []metrics.Exemption {
	all := make([]metrics.Exemption, len(states))
	for i := range states {
		all[i] = metrics.Exemption{Ref: states[i].Ref, Expires: states[i].Expires}
		if states[i].NotEffective != "" {
			all[i].Expires = time.Time{}
		}
	}
	return all
}

package serve

import (
	"time"

	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/observe/metrics"
)

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

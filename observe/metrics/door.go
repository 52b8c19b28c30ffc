package metrics

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	usher "github.com/usher-dev/usher"
)

// phaseLabels are the values of the label phase; the last one is for unknown phases.
var phaseLabels = [...]string{string(usher.Authorize), string(usher.Mutate), string(usher.Validate), "other"}

// A verdict is an index of verdictLabels.
type verdict int

const (
	allowed verdict = iota
	denied
	noOpinion
	undecided
)

var verdictLabels = [...]string{allowed: string(usher.Allow), denied: string(usher.Deny), noOpinion: "no_opinion", undecided: "error"}

func verdictOf(v usher.Verdict) verdict {
	switch v {
	case usher.Allow:
		return allowed
	case usher.Deny:
		return denied
	case usher.NoOpinion:
		return noOpinion
	}
	return undecided
}

func phaseOf(p usher.Phase) int {
	last := len(phaseLabels) - 1
	for i, label := range phaseLabels[:last] {
		if label == string(p) {
			return i
		}
	}
	return last
}

// doorCounts counts the decisions of one door. Its counters are looked up once.
type doorCounts struct {
	metrics *Metrics
	door    string

	decisions [len(phaseLabels)][len(verdictLabels)]atomic.Pointer[prometheus.Counter]
	durations [len(phaseLabels)]atomic.Pointer[prometheus.Observer]
}

func (c *doorCounts) add(phase usher.Phase, v verdict, took time.Duration) {
	p := phaseOf(phase)
	decisions := c.decisions[p][v].Load()
	if decisions == nil {
		found := c.metrics.decisions.WithLabelValues(c.door, phaseLabels[p], verdictLabels[v])
		decisions = &found
		c.decisions[p][v].Store(decisions)
	}
	(*decisions).Inc()
	duration := c.durations[p].Load()
	if duration == nil {
		found := c.metrics.decisionDuration.WithLabelValues(c.door, phaseLabels[p])
		duration = &found
		c.durations[p].Store(duration)
	}
	(*duration).Observe(took.Seconds())
}

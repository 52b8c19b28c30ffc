package metrics

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/usher-dev/usher/fact"
)

// facts counts what is fetched for rules.
type facts struct {
	fetches  *prometheus.CounterVec
	duration *prometheus.HistogramVec
}

func (f *facts) init(c *catalog) {
	f.fetches = c.counterVec("fact_fetches_total",
		"Facts that rules requested, by kind (object, http, access) and result (ok, error).",
		"kind", "result")
	f.duration = c.histogramVec("fact_fetch_duration_seconds",
		"Duration of fetches of facts.",
		"kind")
}

// FactResolver returns a resolver that resolves as next does and counts. In front of a cache it
// counts what rules need, behind one what is fetched.
func (m *Metrics) FactResolver(next fact.Resolver) fact.Resolver {
	return fact.ResolverFunc(func(ctx context.Context, ref fact.Ref) (any, error) {
		kind := string(ref.Sort())
		start := time.Now()
		value, err := next.Resolve(ctx, ref)
		result := "ok"
		if answer, _ := value.(map[string]any); err != nil || ref.Sort() == fact.Questions && answer["error"] != nil {
			result = "error"
		}
		m.facts.fetches.WithLabelValues(kind, result).Inc()
		m.facts.duration.WithLabelValues(kind).Observe(time.Since(start).Seconds())
		return value, err
	})
}

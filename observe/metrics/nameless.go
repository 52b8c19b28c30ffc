package metrics

import (
	"net/http"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
)

// nameLabels are the labels that name objects and namespaces of a cluster.
var nameLabels = []string{"policy_namespace", "policy_name", "exemption_namespace", "exemption_name", "candidate_namespace", "candidate_name"}

// Nameless shows what [Metrics.Handler] shows without the labels that name policies, exemptions, candidates
// and namespaces. Of series that differ in these only, counters are added, and of gauges there is the
// least: the exemption that expires first. What is counted does not fall when a policy is deleted.
func (m *Metrics) Nameless() http.Handler {
	deleted := prometheus.NewRegistry()
	deleted.MustRegister(deletedPolicies{&m.policies})
	all := prometheus.Gatherers{m.registry, deleted}
	return promhttp.HandlerFor(prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
		families, err := all.Gather()
		for _, family := range families {
			family.Metric = withoutNames(family.GetMetric())
		}
		return families, err
	}), promhttp.HandlerOpts{})
}

func withoutNames(all []*dto.Metric) []*dto.Metric {
	if len(all) == 0 || !slices.ContainsFunc(all[0].GetLabel(), isName) {
		return all
	}
	merged := map[string]*dto.Metric{}
	var kept []*dto.Metric
	for _, metric := range all {
		metric.Label = slices.DeleteFunc(metric.GetLabel(), isName)
		var key strings.Builder
		for _, label := range metric.GetLabel() {
			key.WriteString(label.GetValue() + "\xff")
		}
		switch same := merged[key.String()]; {
		case same == nil:
			merged[key.String()] = metric
			kept = append(kept, metric)
		case same.GetCounter() != nil:
			sum := same.GetCounter().GetValue() + metric.GetCounter().GetValue()
			same.Counter.Value = &sum
		case same.GetGauge() != nil:
			least := min(same.GetGauge().GetValue(), metric.GetGauge().GetValue())
			same.Gauge.Value = &least
		}
	}
	return kept
}

func isName(label *dto.LabelPair) bool { return slices.Contains(nameLabels, label.GetName()) }

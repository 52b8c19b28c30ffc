package metrics

import "github.com/prometheus/client_golang/prometheus"

// A scrape takes the values that collectors send.
type scrape chan<- prometheus.Metric

func (s scrape) gauge(desc *prometheus.Desc, value float64, labels ...string) {
	s <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
}

func (s scrape) count(desc *prometheus.Desc, value float64, labels ...string) {
	s <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, value, labels...)
}

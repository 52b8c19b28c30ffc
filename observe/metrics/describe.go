package metrics

import (
	"runtime"
	"runtime/debug"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
)

const prefix = "usher_"

// A Description describes one metric.
type Description struct {
	Name string
	// Type is counter, gauge or histogram.
	Type   string
	Labels []string
	Help   string
}

// Descriptions returns what the metrics are, in the order in which they are documented.
func (m *Metrics) Descriptions() []Description { return slices.Clone(m.descriptions) }

func (m *Metrics) describe(kind, name, help string, labels []string) string {
	m.descriptions = append(m.descriptions, Description{Name: prefix + name, Type: kind, Labels: labels, Help: help})
	return prefix + name
}

func (m *Metrics) counterVec(name, help string, labels ...string) *prometheus.CounterVec {
	opts := prometheus.CounterOpts{Name: m.describe("counter", name, help, labels), Help: help}
	vec := prometheus.NewCounterVec(opts, labels)
	m.registry.MustRegister(vec)
	return vec
}

func (m *Metrics) plainCounter(name, help string) prometheus.Counter {
	counter := prometheus.NewCounter(prometheus.CounterOpts{Name: m.describe("counter", name, help, nil), Help: help})
	m.registry.MustRegister(counter)
	return counter
}

func (m *Metrics) histogramVec(name, help string, labels ...string) *prometheus.HistogramVec {
	opts := prometheus.HistogramOpts{
		Name: m.describe("histogram", name, help, labels),
		Help: help,
		// From a decision without any rule to the timeout of API servers.
		Buckets: []float64{.00001, .000025, .00005, .0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
	}
	vec := prometheus.NewHistogramVec(opts, labels)
	m.registry.MustRegister(vec)
	return vec
}

func (m *Metrics) gauge(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(m.describe("gauge", name, help, labels), help, labels, nil)
}

func (m *Metrics) counter(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(m.describe("counter", name, help, labels), help, labels, nil)
}

// buildInfo describes the running binary, as far as it is known.
func (m *Metrics) buildInfo() prometheus.Collector {
	const module = "github.com/usher-dev/usher"
	help := "Always 1; the labels describe the binary."
	labels := []string{"version", "revision", "go_version"}
	version, revision := "unknown", "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, known := range append(slices.Clone(info.Deps), &info.Main) {
			if known.Path == module && known.Version != "" {
				version = known.Version
			}
		}
		for _, setting := range info.Settings {
			if setting.Key == "vcs.revision" {
				revision = setting.Value
			}
		}
	}
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: m.describe("gauge", "build_info", help, labels),
		Help: help,
		ConstLabels: prometheus.Labels{
			"version": version, "revision": revision, "go_version": runtime.Version(),
		},
	})
	info.Set(1)
	return info
}

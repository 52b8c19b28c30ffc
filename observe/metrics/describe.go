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

// A catalog has the metrics of a process, and their descriptions.
type catalog struct {
	registry     *prometheus.Registry
	descriptions []Description
}

// Descriptions returns what the metrics are, in the order in which they are documented.
func (m *Metrics) Descriptions() []Description { return slices.Clone(m.descriptions) }

func (c *catalog) describe(kind, name, help string, labels []string) string {
	c.descriptions = append(c.descriptions, Description{Name: prefix + name, Type: kind, Labels: labels, Help: help})
	return prefix + name
}

func (c *catalog) counterVec(name, help string, labels ...string) *prometheus.CounterVec {
	opts := prometheus.CounterOpts{Name: c.describe("counter", name, help, labels), Help: help}
	vec := prometheus.NewCounterVec(opts, labels)
	c.registry.MustRegister(vec)
	return vec
}

func (c *catalog) plainCounter(name, help string) prometheus.Counter {
	counter := prometheus.NewCounter(prometheus.CounterOpts{Name: c.describe("counter", name, help, nil), Help: help})
	c.registry.MustRegister(counter)
	return counter
}

func (c *catalog) histogramVec(name, help string, labels ...string) *prometheus.HistogramVec {
	opts := prometheus.HistogramOpts{
		Name: c.describe("histogram", name, help, labels),
		Help: help,
		// From a decision without any rule to the timeout of API servers.
		Buckets: []float64{.00001, .000025, .00005, .0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
	}
	vec := prometheus.NewHistogramVec(opts, labels)
	c.registry.MustRegister(vec)
	return vec
}

// buildInfo describes the running binary, as far as it is known.
func (c *catalog) buildInfo() prometheus.Collector {
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
		Name: c.describe("gauge", "build_info", help, labels),
		Help: help,
		ConstLabels: prometheus.Labels{
			"version": version, "revision": revision, "go_version": runtime.Version(),
		},
	})
	info.Set(1)
	return info
}

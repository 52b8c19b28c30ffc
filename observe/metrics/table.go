package metrics

import (
	"strings"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// A table has the metrics that show a T. It asks for the T whenever metrics are read, so that all show the same one.
type table[T any] struct {
	rows  []row[T]
	descs []*prometheus.Desc

	// current returns nil while there is nothing to show.
	current atomic.Pointer[func() *T]
}

// A row is one metric. It is a counter if its name ends in _total, and otherwise a gauge.
type row[T any] struct {
	name, help string
	labels     []string
	// values sends each value with those of the labels.
	values func(state *T, send sender)
}

type sender func(value float64, labels ...string)

type number interface {
	int | int64 | uint64 | float64
}

// one has a row send one value, without labels.
func one[T any, N number](of func(*T) N) func(*T, sender) {
	return func(state *T, send sender) { send(float64(of(state))) }
}

// by has a row send the values of a map, with their keys as label.
func by[T any, N number](of func(*T) map[string]N) func(*T, sender) {
	return func(state *T, send sender) {
		for label, value := range of(state) {
			send(float64(value), label)
		}
	}
}

// is is 1 for true.
func is(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// init describes the metrics.
func (t *table[T]) init(c *catalog, rows ...row[T]) {
	t.rows, t.descs = rows, make([]*prometheus.Desc, len(rows))
	for i, r := range rows {
		kind := "gauge"
		if strings.HasSuffix(r.name, "_total") {
			kind = "counter"
		}
		t.descs[i] = prometheus.NewDesc(c.describe(kind, r.name, r.help, r.labels), r.help, r.labels, nil)
	}
}

// show has the metrics show what current returns.
func (t *table[T]) show(current func() *T) { t.current.Store(&current) }

// Describe implements prometheus.Collector.
func (t *table[T]) Describe(descs chan<- *prometheus.Desc) {
	for _, desc := range t.descs {
		descs <- desc
	}
}

// Collect implements prometheus.Collector.
func (t *table[T]) Collect(metrics chan<- prometheus.Metric) {
	current := t.current.Load()
	if current == nil {
		return
	}
	if state := (*current)(); state != nil {
		t.send(metrics, state)
	}
}

func (t *table[T]) send(metrics chan<- prometheus.Metric, state *T) {
	for i, r := range t.rows {
		kind := prometheus.GaugeValue
		if strings.HasSuffix(r.name, "_total") {
			kind = prometheus.CounterValue
		}
		r.values(state, func(value float64, labels ...string) {
			metrics <- prometheus.MustNewConstMetric(t.descs[i], kind, value, labels...)
		})
	}
}

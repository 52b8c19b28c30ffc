package main

import (
	"maps"
	"slices"
	"testing"
)

// BenchmarkGated calls what the gate compares, to be profiled.
func BenchmarkGated(b *testing.B) {
	handlers, body := gated(b)
	for _, name := range slices.Sorted(maps.Keys(handlers)) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			// Other work on the machine makes requests slower, and takes little of their CPU time.
			start := ownCPU()
			for b.Loop() {
				call(handlers[name], body)
			}
			b.ReportMetric(float64(ownCPU()-start)/float64(b.N), "cpu-ns/op")
		})
	}
}

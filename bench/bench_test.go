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
			for b.Loop() {
				call(handlers[name], body)
			}
		})
	}
}

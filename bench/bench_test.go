package main

import (
	"maps"
	"slices"
	"testing"
)

// BenchmarkGated calls what the gate compares, to be profiled.
func BenchmarkGated(b *testing.B) {
	b.Chdir("..")
	handlers, err := gatedHandlers()
	if err != nil {
		b.Fatal(err)
	}
	body, err := review(7000)
	if err != nil {
		b.Fatal(err)
	}
	for _, name := range slices.Sorted(maps.Keys(handlers)) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				call(handlers[name], body)
			}
		})
	}
}

package main

import (
	"strings"
	"testing"
	"time"
)

func TestVerdicts(t *testing.T) {
	t.Parallel()
	ms := time.Millisecond
	subjects := []*subject{
		{target: target{name: "ordinary", reference: ordinary}},
		{target: target{name: "good", limit: 0.5, count: 100}, ratios: []float64{0.2, 0.504, 9}, half: measure{p50: ms, p99: 3 * ms}, memory: 60e6},
		{target: target{name: "bad", limit: 0.5, count: 1100}, ratios: []float64{0.2, 0.506, 9}, half: measure{p50: ms, p99: 4 * ms}, memory: 81e6},
	}
	var b strings.Builder
	if err := writeTable(&b, subjects); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| ordinary |  | 1.00 |  |",
		"| good |  | 0.50 | ≤ 0.50 ✓ |", "| 3 ms ✓ |", "| 60 MB ≤ 60 ✓ |",
		"| bad |  | 0.51 | ≤ 0.50 ✗ |", "| 4 ms ✗ |", "| 81 MB ≤ 80 ✗ |",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}

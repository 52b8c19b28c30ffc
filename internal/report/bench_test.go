package report_test

import (
	"fmt"
	"testing"

	"github.com/usher-dev/usher/internal/report"
	"github.com/usher-dev/usher/internal/rule"
)

// BenchmarkRound measures what the leader computes in each round for 10,000 policies.
func BenchmarkRound(b *testing.B) {
	s := report.Snapshot{Policies: make([]rule.State, 10_000)}
	for i := range s.Policies {
		name := fmt.Sprint("p", i)
		s.Policies[i] = rule.State{Policy: ref(name), UID: uid(name), Generation: 1, Compiled: true, Enforced: true}
	}
	first, later := report.Rounds(s)
	for _, bench := range []struct {
		name  string
		round func() int
		want  int
	}{{"nothing to write", later, 0}, {"all to write", first, 10_000}} {
		b.Run(bench.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if n := bench.round(); n != bench.want {
					b.Fatalf("%d statuses to write, want %d", n, bench.want)
				}
			}
		})
	}
}

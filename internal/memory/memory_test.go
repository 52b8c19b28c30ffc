package memory_test

import (
	"math"
	"testing"

	"github.com/usher-dev/usher/internal/memory"
)

func TestBudgetFollowsTheMemoryLimit(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	for _, row := range []struct {
		reason      string
		limit, want int64
	}{
		{"no limit", math.MaxInt64, 256 * mib},
		{"the limit of the chart", 256 * mib, 64 * mib},
		{"a large server", 4096 * mib, 1024 * mib},
		{"a small one", 32 * mib, 16 * mib},
		{"none at all", 0, 16 * mib},
	} {
		if got := memory.BudgetOf(row.limit); got != row.want {
			t.Errorf("%s: %d MiB, want %d", row.reason, got/mib, row.want/mib)
		}
	}
}

func TestGarbageIsBounded(t *testing.T) {
	t.Parallel()
	const mb = 1 << 20
	for _, row := range []struct {
		reason string
		live   uint64
		want   int
	}{
		{"nothing is in use", 0, 1000},
		{"next to nothing", 1, 1000},
		{"a hundred policies", 4 * mb, 300},
		{"thousands of policies", 30 * mb, 213},
		{"large requests", 100 * mb, 64},
		{"very large ones", 1000 * mb, 50},
	} {
		if got := memory.GrowthPercent(row.live); got != row.want {
			t.Errorf("%s: %d percent, want %d", row.reason, got, row.want)
		}
	}
}

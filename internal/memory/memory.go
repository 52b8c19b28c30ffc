// Package memory is how a server uses the memory of its process: how much requests may take,
// how often garbage is collected, and pages of the binary that are not needed any more.
package memory

import (
	"math"
	"runtime/debug"
)

const (
	// share is the part of GOMEMLIMIT that requests may take together, as a divisor: the rest is
	// for policies, copies of objects of a cluster, and garbage.
	share = 4
	// usualBudget is the budget without GOMEMLIMIT, leastBudget the minimum, in bytes.
	usualBudget = 256 << 20
	leastBudget = 16 << 20
)

// Budget returns how much memory requests may take together, in bytes. It follows GOMEMLIMIT.
func Budget() int64 { return budget(debug.SetMemoryLimit(-1)) }

func budget(limit int64) int64 {
	if limit == math.MaxInt64 {
		return usualBudget
	}
	return max(limit/share, leastBudget)
}

package memory

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
)

const (
	// headroom is how much may be allocated between two garbage collections, in bytes, however
	// little is in use. What is in use with a hundred policies is a few MB, and Go would
	// collect garbage many times a second.
	headroom = 12 << 20
	// minPercent and maxPercent bound the percentage that this comes to. Policies by the
	// thousand are seldom garbage, and going through them costs each request its share.
	minPercent = 250
	maxPercent = 1000
	// mostGarbage bounds what this comes to, in bytes, and lastPercent is what is left of it in
	// percent: large requests should not cost several times what they take.
	mostGarbage = 64 << 20
	lastPercent = 50
)

// tuned makes the first server of the process tune its garbage collector.
var tuned atomic.Bool

// TuneGC makes garbage collections as rare as room allows, unless GOGC says how often
// they should be.
func TuneGC() {
	if os.Getenv("GOGC") == "" && tuned.CompareAndSwap(false, true) {
		tuneAfterCollections(100)
	}
}

// tuneAfterCollections sets the pace anew after each collection: what it leaves behind is
// what is in use.
func tuneAfterCollections(percent int) {
	mark := new([16]byte)
	runtime.AddCleanup(mark, func(percent int) {
		next := gcPercent(liveBytes())
		if 10*abs(next-percent) > percent {
			debug.SetGCPercent(next)
			percent = next
		}
		tuneAfterCollections(percent)
	}, percent)
}

func abs(n int) int { return max(n, -n) }

// gcPercent is how many percent of what is in use may be allocated until the next
// collection.
func gcPercent(live uint64) int {
	if live == 0 {
		return maxPercent
	}
	percent := min(max(100*headroom/live, minPercent), maxPercent)
	return int(max(min(percent, 100*mostGarbage/live), lastPercent))
}

func liveBytes() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

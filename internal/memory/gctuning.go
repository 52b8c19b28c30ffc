package memory

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
)

const (
	// headroom is how much may be allocated between two garbage collections, in bytes, even if
	// little is in use. With a hundred policies a few MB are in use, and Go would collect garbage
	// many times a second.
	headroom = 12 << 20
	// minPercent and maxPercent bound the percentage that this comes to. Policies by the
	// thousand are seldom garbage, and going through them costs each request its share.
	minPercent = 250
	maxPercent = 1000
	// mostGarbage limits the resulting garbage, in bytes, and lastPercent is the remaining
	// percentage: large requests should not take several times their memory.
	mostGarbage = 64 << 20
	lastPercent = 50
)

// tuned makes the first server of the process tune its garbage collector.
var tuned atomic.Bool

// TuneGC makes garbage collections as rare as headroom allows, unless GOGC is set.
func TuneGC() {
	if os.Getenv("GOGC") == "" && tuned.CompareAndSwap(false, true) {
		tuneAfterCollections(100)
	}
}

// tuneAfterCollections adjusts the pace after each collection, to the memory in use then.
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

// gcPercent is the percentage of the memory in use that may be allocated until the next collection.
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

package load

import (
	"runtime"
	"syscall"
	"time"
)

// newSleeper returns a function that sleeps to within a tenth of a millisecond: the timers
// of the Go runtime can be a whole one late. It belongs to the goroutine that calls this,
// which calls awake when it needs it no more.
func newSleeper() (sleep func(time.Duration), awake func()) {
	runtime.LockOSThread()
	return func(d time.Duration) {
		for left := syscall.NsecToTimespec(int64(d)); d > 0; {
			if err := syscall.Nanosleep(&left, &left); err != syscall.EINTR {
				return
			}
		}
	}, runtime.UnlockOSThread
}

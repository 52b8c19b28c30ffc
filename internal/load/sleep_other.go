//go:build !linux

package load

import "time"

func newSleeper() (sleep func(time.Duration), awake func()) { return time.Sleep, func() {} }

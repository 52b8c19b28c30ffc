//go:build !linux

package worker

import (
	"os"
	"syscall"
	"time"
)

// confine does nothing: on other systems than Linux there is only the soft memory limit of Go.
func confine(int64) {}

// self returns the path of the running program.
func self() (string, error) { return os.Executable() }

// attributes are none: workers end when their input does.
func attributes() *syscall.SysProcAttr { return nil }

func endGroup(int) {}

func lowerGroup(int) {}

func cpuOf(int) (time.Duration, bool) { return 0, false }

func holdThread() {}

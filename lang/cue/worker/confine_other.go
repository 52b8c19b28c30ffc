//go:build !linux

package worker

import (
	"os"
	"syscall"
	"time"
)

// confine does nothing: without Linux there is the memory limit of Go, which is none for what is
// in use.
func confine(int64) {}

// self is the file of the program that is running.
func self() (string, error) { return os.Executable() }

// attributes are none: workers end when their input does.
func attributes() *syscall.SysProcAttr { return nil }

func endGroup(int) {}

func lowerGroup(int) {}

func cpuOf(int) (time.Duration, bool) { return 0, false }

func holdThread() {}

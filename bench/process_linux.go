package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// cpuOf returns the CPU time that a process has used, in user and system mode.
func cpuOf(pid int) (time.Duration, error) {
	// The CPU clock of another process, as clock_getcpuclockid computes it.
	const scheduler = 2
	clock := int32(^uint32(pid)<<3 | scheduler)
	var at unix.Timespec
	if err := unix.ClockGettime(clock, &at); err != nil {
		return 0, fmt.Errorf("read CPU time of process %d: %w", pid, err)
	}
	return time.Duration(at.Nano()), nil
}

// memoryOf returns the resident memory of a process in bytes, with that which is mapped
// from files.
func memoryOf(pid int) (int64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, fmt.Errorf("read memory of process %d: %w", pid, err)
	}
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	fields := strings.Fields(rest)
	if len(fields) == 0 {
		return 0, fmt.Errorf("read memory of process %d: no VmRSS", pid)
	}
	kilobytes, err := strconv.ParseInt(fields[0], 10, 64)
	return kilobytes << 10, err
}

// ownCPU returns the CPU time that this process has used.
func ownCPU() time.Duration {
	var at unix.Timespec
	// It cannot fail.
	_ = unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &at)
	return time.Duration(at.Nano())
}

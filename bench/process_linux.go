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

// cpuOfChildren returns the CPU time that the children of a process have used, those that have ended
// included.
func cpuOfChildren(pid int) (time.Duration, error) {
	ended, err := statOf(pid)
	if err != nil {
		return 0, err
	}
	// Of children that were waited for, in ticks.
	used := (ended[13] + ended[14]) * int64(time.Second/ticks)
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0, err
	}
	for _, entry := range entries {
		child, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		if stat, err := statOf(child); err != nil || stat[1] != int64(pid) {
			continue
		}
		if cpu, err := cpuOf(child); err == nil {
			used += int64(cpu)
		}
	}
	return time.Duration(used), nil
}

// ticks is how many there are in a second, on every machine that Linux runs on today.
const ticks = 100

// statOf returns the numbers of a process in proc(5), from its state on, which is 0.
func statOf(pid int) ([]int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil, fmt.Errorf("read state of process %d: %w", pid, err)
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 20 {
		return nil, fmt.Errorf("read state of process %d: %q", pid, text)
	}
	numbers := make([]int64, len(fields))
	for i, field := range fields {
		numbers[i], _ = strconv.ParseInt(field, 10, 64)
	}
	return numbers, nil
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

package worker

import (
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// confine limits the memory of the process, in addition to what Go has reserved already, closes
// inherited files that it does not use, and prevents it from opening files, connections and pipes,
// without which Go cannot start programs. It ignores what a system does not support: the parent still
// kills workers that take too long.
func confine(memory int64) {
	if most := uint64(dataSize() + memory); !raceEnabled {
		_ = unix.Setrlimit(unix.RLIMIT_DATA, &unix.Rlimit{Cur: most, Max: most})
	}
	_ = unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{})
	closeInherited()
}

// dataSize returns how many bytes count for RLIMIT_DATA now; only few of them are in use.
func dataSize() int64 {
	const usual = 64 << 20
	statm, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return usual
	}
	fields := strings.Fields(string(statm))
	if len(fields) < 6 {
		return usual
	}
	pages, _ := strconv.ParseInt(fields[5], 10, 64)
	return pages * int64(os.Getpagesize())
}

// protocolFiles are standard input, output and error.
const protocolFiles = 3

// closeInherited closes all files but those of the protocol and those of Go itself, which has opened its
// own by then, and allows no further ones.
func closeInherited() {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return
	}
	for _, entry := range entries {
		fd, err := strconv.Atoi(entry.Name())
		if err != nil || fd < protocolFiles {
			continue
		}
		target, err := os.Readlink(filepath.Join("/proc/self/fd", entry.Name()))
		// Go uses the anonymous files to wait for others.
		if err == nil && !strings.HasPrefix(target, "anon_inode:") {
			_ = unix.Close(fd)
		}
	}
	// Open files stay open.
	_ = unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: protocolFiles, Max: protocolFiles})
}

// self returns the path of the running program, which works even if its file was replaced.
func self() (string, error) {
	const link = "/proc/self/exe"
	if _, err := os.Readlink(link); err == nil {
		return link, nil
	}
	return os.Executable()
}

// attributes make workers end with the parent, and keep signals of its terminal from them.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}

// endGroup kills the processes that an ended worker has started. Its number is not reused while
// there are any.
func endGroup(pid int) { _ = unix.Kill(-pid, unix.SIGKILL) }

// nicer is the difference between the niceness of the low priority and that of this process. Another
// process that needs the processor gets it at once, and nine tenths of the time.
const nicer = 10

// lowerGroup gives all threads of a process that leads a group the low priority.
func lowerGroup(pid int) {
	// The system call returns 20 less the niceness.
	if own, err := unix.Getpriority(unix.PRIO_PROCESS, 0); err == nil {
		_ = unix.Setpriority(unix.PRIO_PGRP, pid, min(20-own+nicer, 19))
	}
}

// cpuOf returns the CPU time of a process, if it exists.
func cpuOf(pid int) (time.Duration, bool) {
	// The clock of a process, computed as clock_getcpuclockid does.
	const scheduled = 2
	var used unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|scheduled), &used); err != nil {
		return 0, false
	}
	return time.Duration(used.Nano()), true
}

// holdThread keeps the thread of the calling goroutine alive: workers end with the thread that
// started them.
func holdThread() { runtime.LockOSThread() }

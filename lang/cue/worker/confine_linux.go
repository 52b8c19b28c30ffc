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

// confine keeps the process within its memory, besides what Go has set aside already, closes what it
// inherited and does not use, and keeps it from opening files, connections and pipes, without which Go
// starts no programs. What a system does not support it goes without: the parent still ends what takes
// too long.
func confine(memory int64) {
	if most := uint64(dataSize() + memory); !raceEnabled {
		_ = unix.Setrlimit(unix.RLIMIT_DATA, &unix.Rlimit{Cur: most, Max: most})
	}
	_ = unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{})
	closeInherited()
}

// dataSize is how many bytes count for RLIMIT_DATA now; few of them are in use.
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
		// Go waits for its files with the anonymous ones.
		if err == nil && !strings.HasPrefix(target, "anon_inode:") {
			_ = unix.Close(fd)
		}
	}
	// What is open stays so.
	_ = unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: protocolFiles, Max: protocolFiles})
}

// self is the program that is running, even if its file has been replaced since.
func self() (string, error) {
	const link = "/proc/self/exe"
	if _, err := os.Readlink(link); err == nil {
		return link, nil
	}
	return os.Executable()
}

// attributes make workers end with the parent, and spare them the signals of its terminal.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}

// endGroup ends what a worker that has ended has started. No other process has its number as long as
// there is some of that.
func endGroup(pid int) { _ = unix.Kill(-pid, unix.SIGKILL) }

// nicer is by how much the niceness of the low priority is above that of this process. Another process
// that needs the processor gets it at once, and nine tenths of the time.
const nicer = 10

// lowerGroup gives all threads of a process that leads a group the low priority.
func lowerGroup(pid int) {
	// The system call returns 20 less the niceness.
	if own, err := unix.Getpriority(unix.PRIO_PROCESS, 0); err == nil {
		_ = unix.Setpriority(unix.PRIO_PGRP, pid, min(20-own+nicer, 19))
	}
}

// cpuOf is for how long a process has used the processor, if it is there.
func cpuOf(pid int) (time.Duration, bool) {
	// The clock of a process, as clock_getcpuclockid has it.
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

package worker

import (
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// confine keeps the process within its memory, besides what Go has set aside already, and closes
// what it inherited and has no use for. What a system does not support it goes without: the
// parent still ends what takes too long.
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

// closeInherited closes all files but those of the protocol and those of Go itself.
func closeInherited() {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return
	}
	for _, entry := range entries {
		fd, err := strconv.Atoi(entry.Name())
		if err != nil || fd <= 2 {
			continue
		}
		target, err := os.Readlink(filepath.Join("/proc/self/fd", entry.Name()))
		// Go waits for its files with the anonymous ones.
		if err == nil && !strings.HasPrefix(target, "anon_inode:") {
			_ = unix.Close(fd)
		}
	}
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

// holdThread keeps the thread of the calling goroutine alive: workers end with the thread that
// started them.
func holdThread() { runtime.LockOSThread() }

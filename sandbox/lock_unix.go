//go:build unix

package sandbox

import (
	"fmt"
	"os"
	"syscall"
)

// lock waits for an exclusive lock of the file. The lock is released when the process ends, if not
// before.
func lock(path string) (unlock func(), err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock cache of usher-sandbox: %w", err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX); err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("lock cache of usher-sandbox: %w", err)
	}
	return func() { _ = file.Close() }, nil
}

//go:build unix

package dir_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/usher-dev/usher/source/dir"
)

// A named pipe in place of a file does not keep other files from being read.
func TestRunDoesNotWaitForPipes(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	const kind = "ClusterOverridePolicy"
	write(t, folder, map[string]string{"a.yaml": policy(kind, "one"), "b.yaml": policy(kind, "two")})
	a, b := filepath.Join(folder, "a.yaml"), filepath.Join(folder, "b.yaml")
	wait := watch(t, folder, a, b)
	wait("a.yaml:1: one", "b.yaml:1: two")

	if err := os.Remove(a); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(a, 0o600); err != nil {
		t.Skip("no named pipes")
	}
	write(t, folder, map[string]string{"b.yaml": policy(kind, "three")})
	wait("b.yaml:1: three", "! a.yaml: read policies: a named pipe took the place of the file")

	if err := os.Remove(a); err != nil {
		t.Fatal(err)
	}
	write(t, folder, map[string]string{"a.yaml": policy(kind, "four")})
	wait("a.yaml:1: four", "b.yaml:1: three")
}

// A device has no end, and a terminal waits for its user.
func TestLoadRefusesDevices(t *testing.T) {
	t.Parallel()
	set, err := dir.Load(os.DevNull)
	if err != nil || len(set.Unreadable) != 1 || set.Unreadable[0].Err.Error() != "read: it is a device, not a file" {
		t.Errorf("got %v, %v", set.Unreadable, err)
	}
}

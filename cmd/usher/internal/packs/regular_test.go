//go:build unix

package packs_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"

	"github.com/usher-dev/usher/cmd/usher/internal/packs"
)

// A pack of somebody else neither keeps the command waiting nor takes its memory.
func TestFilesThatAreNotRead(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		reason, want string
		make         func(path string) error
	}{
		{"a pipe has no end", "not a regular file", func(path string) error { return syscall.Mkfifo(path, 0o600) }},
		{"a sparse file takes no space on disk", "larger than 16 MiB", func(path string) error {
			return errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, 17<<20))
		}},
	} {
		t.Run(row.reason, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if err := row.make(filepath.Join(dir, "pack.yaml")); err != nil {
				t.Skip("make file:", err)
			}
			var flags packs.Flags
			cmd := &cobra.Command{}
			flags.Register(cmd)
			if err := cmd.ParseFlags([]string{"--packs", dir}); err != nil {
				t.Fatal(err)
			}
			if _, err := flags.Packs(); err == nil || !strings.Contains(err.Error(), row.want) {
				t.Errorf("the error is %v, expected %q in it", err, row.want)
			}
		})
	}
}

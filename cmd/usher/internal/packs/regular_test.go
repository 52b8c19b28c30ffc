//go:build unix

package packs_test

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"

	"github.com/usher-dev/usher/cmd/usher/internal/packs"
)

// A pipe in a pack of somebody else does not keep the command waiting.
func TestPipesAreNotRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(dir, "pack.yaml"), 0o600); err != nil {
		t.Skip("no pipes:", err)
	}
	var flags packs.Flags
	cmd := &cobra.Command{}
	flags.Register(cmd)
	if err := cmd.ParseFlags([]string{"--packs", dir}); err != nil {
		t.Fatal(err)
	}
	if _, err := flags.Packs(); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("the error is %v", err)
	}
}

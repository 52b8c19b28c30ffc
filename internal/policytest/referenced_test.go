package policytest_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/usher-dev/usher/internal/policytest"
)

// What a case names is read to its end: pipes and devices have none.
func TestReferencedFilesAreRegular(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	large := filepath.Join(dir, "large.yaml")
	if err := os.WriteFile(large, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(large, 65<<20); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(os.DevNull, filepath.Join(dir, "link.yaml")); err != nil {
		t.Skip("no symbolic links")
	}
	for _, row := range []struct{ reason, file, want string }{
		{"a pipe or a device, through a link", "link.yaml", "is not a regular file"},
		{"a folder", ".", "is not a regular file"},
		{"a file that never fits into memory", "large.yaml", "is larger than 64 MiB"},
	} {
		name := filepath.Join(dir, "case.yaml")
		text := "name: x\nphase: validate\npolicyFiles: [" + row.file + "]\n"
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := policytest.Tests(name); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %v, want %q", row.reason, err, row.want)
		}
	}
}

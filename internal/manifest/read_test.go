package manifest_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/usher-dev/usher/internal/manifest"
)

// TestRead: a link in a folder of others does not have a command read forever.
func TestRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, link := filepath.Join(dir, "a.yaml"), filepath.Join(dir, "zero.yaml")
	if err := os.WriteFile(file, []byte(strings.Repeat("x", 2<<20)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/dev/zero", link); err != nil {
		t.Fatal(err)
	}
	if content, err := manifest.Read(file, 2<<20); err != nil || len(content) != 2<<20 {
		t.Errorf("%d bytes, %v", len(content), err)
	}
	for name, want := range map[string]string{
		file: "is larger than 1 MiB", link: "zero.yaml: it is a device, not a file", filepath.Join(dir, "none"): "no such file",
	} {
		if _, err := manifest.Read(name, 1<<20); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
	if manifest.HasCases(link) {
		t.Error("a device has cases")
	}
}

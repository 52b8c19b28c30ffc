package connect_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/cmd/usher/internal/connect"
	"github.com/usher-dev/usher/internal/webhookconfig/credential"
)

// TestWriteFiles: files that may have credentials are for their owner, and stay in the folder.
func TestWriteFiles(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	dir, outside := filepath.Join(base, "out"), filepath.Join(base, "mine")
	write := func() (string, error) {
		var out bytes.Buffer
		err := connect.WriteFiles(cli.Streams{Out: &out}, dir, []credential.File{{Name: "kubeconfig.yaml", Content: []byte("token")}})
		return out.String(), err
	}
	path := filepath.Join(dir, "kubeconfig.yaml")
	if out, err := write(); err != nil || strings.TrimSpace(out) != path {
		t.Fatalf("%q, %v", out, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("written as %v, %v", info, err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, path); err != nil {
		t.Fatal(err)
	}
	if out, err := write(); err == nil || out != "" {
		t.Errorf("through a link: %q, %v", out, err)
	}
	if _, err := os.Stat(outside); !os.IsNotExist(err) {
		t.Errorf("a file outside the folder: %v", err)
	}
}

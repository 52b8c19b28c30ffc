// Package docs_test checks what the documents say.
package docs_test

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/usher-dev/usher/internal/doctest"
)

const root = ".."

var update = flag.Bool("update", false, "write what commands print into the documents")

// bin is a folder with usher, and with a make that does what the documents need of it.
var bin string

func TestMain(m *testing.M) {
	flag.Parse()
	dir, err := os.MkdirTemp("", "usher-docs-")
	if err == nil {
		bin = dir
		err = install(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	status := m.Run()
	os.RemoveAll(dir)
	os.Exit(status)
}

// install puts $USHER_BIN into dir or, if that is not set, builds usher there.
func install(dir string) error {
	if err := os.WriteFile(filepath.Join(dir, "make"), []byte(doctest.Make), 0o755); err != nil {
		return err
	}
	target := filepath.Join(dir, "usher")
	if built := os.Getenv("USHER_BIN"); built != "" {
		// go caches results by the variables that were read: another build is another result.
		os.Getenv("USHER_BUILD")
		path, err := filepath.Abs(built)
		if err != nil {
			return err
		}
		return os.Symlink(path, target)
	}
	// The profile would have all dependencies compiled again.
	build := exec.Command("go", "build", "-pgo=off", "-o", target, "../cmd/usher")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build usher: %w: %s", err, out)
	}
	return nil
}

// TestConsole runs every console block of the README and of docs that needs no cluster.
// Those that need one are run by sandbox/e2e.
func TestConsole(t *testing.T) {
	t.Parallel()
	documents, err := doctest.Find(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range documents {
		name, err := filepath.Rel(root, d.Path)
		if err != nil {
			t.Fatal(err)
		}
		if len(d.Blocks) == 0 {
			continue
		}
		t.Run(strings.TrimSuffix(filepath.ToSlash(name), ".md"), func(t *testing.T) {
			t.Parallel()
			d.Run(t, doctest.Options{
				Root:    root,
				Folders: []string{"deploy", "docs", "examples", "hack", "library", "sandbox/e2e/testdata"},
				Path:    bin,
				// Nobody's cluster.
				Environment: []string{"KUBECONFIG=/dev/null"},
				Update:      *update,
			})
		})
	}
}

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/usher-dev/usher/internal/doctest"
	"github.com/usher-dev/usher/sandbox"
)

// TestDocuments runs the console blocks of every document that needs a cluster, with
// kubectl, and compares what is printed. The other documents are run by go test ./docs.
//
// README's cluster is the one of `make sandbox`; other documents start their own. TestReports runs the
// one about reports.
func TestDocuments(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("kubectl"); err != nil {
		t.Skip("kubectl is not installed")
	}
	documents, err := doctest.Find(root)
	if err != nil {
		t.Fatal(err)
	}
	bin := documentPrograms(t)
	// README's policy is for the pods of every namespace.
	r := newRig(t, sandbox.Options{Exclusive: true})
	r.serve(t, "--policies", filepath.Join(root, "examples", "object-policies", "policies"))
	ran := 0
	for _, d := range documents {
		if !d.NeedsCluster() || filepath.Base(d.Path) == reportsDocument {
			continue
		}
		ran++
		t.Run(strings.TrimSuffix(filepath.Base(d.Path), ".md"), func(t *testing.T) {
			d.Run(t, doctest.Options{
				Root:        root,
				Folders:     []string{"deploy", "docs", "examples", "hack"},
				Path:        bin,
				Environment: []string{"KUBECONFIG=" + r.Kubeconfig},
				Cluster:     true,
			})
		})
	}
	if ran == 0 {
		t.Error("no document needs a cluster")
	}
}

// documentPrograms returns a folder with what documents call.
func documentPrograms(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	binary, err := usherBinary()
	if err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{"usher": binary, "usher-sandbox": sandbox.Binary(t)} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	build := exec.Command("go", "build", "-o", dir, "./examples/sdk/...")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build examples: %v: %s", err, out)
	}
	if err := os.WriteFile(filepath.Join(dir, "make"), []byte(doctest.Make), 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

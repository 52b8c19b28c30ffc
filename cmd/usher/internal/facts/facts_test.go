package facts_test

import (
	"os"
	"path/filepath"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/usher-dev/usher/cmd/usher/internal/facts"
)

// TestFilesAreReadOnce: one of --facts may be a pipe, as of <(kubectl get crds -o yaml).
func TestFilesAreReadOnce(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "facts.yaml")
	const definition = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  names: {kind: Widget, plural: widgets}
  scope: Namespaced
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
`
	if err := os.WriteFile(file, []byte(definition), 0o600); err != nil {
		t.Fatal(err)
	}
	f := facts.Flags{Files: []string{file}}
	if _, _, err := f.Load(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	kinds, err := f.Kinds()
	if err != nil {
		t.Fatal(err)
	}
	if widget := (schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}); len(kinds.Serving(widget)) == 0 {
		t.Errorf("%s is not known", widget)
	}
}

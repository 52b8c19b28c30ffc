package facts_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/usher-dev/usher/cmd/usher/internal/facts"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/audit/result"
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

// TestFactsAreInTheNamespace: what names no namespace is in that of -n, if its kind is known to be in namespaces.
func TestFactsAreInTheNamespace(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "facts.yaml")
	const objects = `
{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: b, namespace: other}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: c}}
---
{apiVersion: example.com/v1, kind: Unknown, metadata: {name: d}}
`
	if err := os.WriteFile(file, []byte(objects), 0o600); err != nil {
		t.Fatal(err)
	}
	for namespace, want := range map[string]string{"": "/a other/b /c /d", "shop": "shop/a other/b /c /d"} {
		f := facts.Flags{Files: []string{file}, Namespace: namespace}
		trees, err := f.Objects()
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, tree := range trees {
			of := result.IdentityOf(tree)
			got = append(got, of.Namespace+"/"+of.Name)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("-n %s: %s, want %s", namespace, strings.Join(got, " "), want)
		}
	}
}

// TestFactsWithoutNamespaceAreReadByTenants: what names no namespace is in the one in which it is looked for, so that
// a policy of a namespace may read it.
func TestFactsWithoutNamespaceAreReadByTenants(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "facts.yaml")
	const objects = `
{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: b, namespace: other}}
---
{apiVersion: v1, kind: Node, metadata: {name: one}}
`
	if err := os.WriteFile(file, []byte(objects), 0o600); err != nil {
		t.Fatal(err)
	}
	f := facts.Flags{Files: []string{file}}
	_, resolver, err := f.Load()
	if err != nil {
		t.Fatal(err)
	}
	bounds := fact.Bounds{Namespace: "shop", Reads: []fact.Read{{APIVersion: "v1", Kind: "ConfigMap", Name: "a"}, {APIVersion: "v1", Kind: "Node", Name: "one"}}}
	for _, test := range []struct {
		ref     fact.Object
		allowed bool
	}{
		{fact.Object{APIVersion: "v1", Kind: "ConfigMap", Name: "a"}, true},
		{fact.Object{APIVersion: "v1", Kind: "Node", Name: "one"}, false},
	} {
		test.ref.Namespace, test.ref.AnyScope = "shop", true
		found, err := bounds.Resolve(t.Context(), resolver, &test.ref)
		if (err == nil) != test.allowed {
			t.Errorf("%s: %v, %v", &test.ref, found, err)
		}
	}
}

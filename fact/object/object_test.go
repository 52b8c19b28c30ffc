package object_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/fact/object"
)

const cluster = `
apiVersion: v1
kind: ConfigMap
metadata: {name: b, namespace: shop, labels: {tier: web}}
data: {k: shop-b}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: a, namespace: shop, labels: {tier: web}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: z, namespace: bank, labels: {tier: web}}
---
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: v1
kind: Node
metadata: {name: n1}
`

func TestResolve(t *testing.T) {
	t.Parallel()
	trees, err := object.Decode([]byte(cluster))
	if err != nil {
		t.Fatalf("Decode: %v", err)
	}
	store := object.FromTrees(trees)
	tests := []struct {
		reason string
		ref    fact.Object
		// want is namespace/name, or nothing.
		want string
		err  string
	}{
		{"by name", fact.Object{APIVersion: "v1", Kind: "ConfigMap", Namespace: "shop", Name: "b"}, "shop/b", ""},
		{"a name that does not exist", fact.Object{APIVersion: "v1", Kind: "ConfigMap", Namespace: "shop", Name: "x"}, "", `ConfigMap "shop/x" not found`},
		{"a kind that does not exist", fact.Object{APIVersion: "v1", Kind: "Widget", Namespace: "shop", Name: "x"}, "", `Widget "shop/x" not found`},
		{"a version that does not exist", fact.Object{APIVersion: "v2", Kind: "ConfigMap", Namespace: "shop", Name: "b"}, "", `ConfigMap "shop/b" not found`},
		{"cluster-scoped by name", fact.Object{APIVersion: "v1", Kind: "Namespace", Name: "shop"}, "/shop", ""},
		{"without namespace only cluster-scoped kinds are found", fact.Object{APIVersion: "v1", Kind: "ConfigMap", Name: "b"}, "", `ConfigMap "b" not found`},
		{"a namespace keeps cluster-scoped kinds away", fact.Object{APIVersion: "v1", Kind: "Node", Namespace: "shop", Name: "n1"}, "", `Node "shop/n1" not found`},
		{"any scope finds what is cluster-scoped", fact.Object{APIVersion: "v1", Kind: "Node", Namespace: "shop", Name: "n1", AnyScope: true}, "/n1", ""},
		{"any scope prefers the namespace", fact.Object{APIVersion: "v1", Kind: "ConfigMap", Namespace: "shop", Name: "a", AnyScope: true}, "shop/a", ""},
		{"any scope stays in the namespace", fact.Object{APIVersion: "v1", Kind: "ConfigMap", Namespace: "bank", Name: "a", AnyScope: true}, "", "not found"},
		{"the first by namespace and name", fact.Object{APIVersion: "v1", Kind: "ConfigMap", Selector: label("web")}, "bank/z", ""},
		{"the first of a namespace", fact.Object{APIVersion: "v1", Kind: "ConfigMap", Namespace: "shop", Selector: label("web")}, "shop/a", ""},
		{"nothing selected", fact.Object{APIVersion: "v1", Kind: "ConfigMap", Selector: label("db")}, "", ""},
		{"nothing of the kind", fact.Object{APIVersion: "v1", Kind: "Widget", Selector: label("web")}, "", ""},
		{"neither name nor selector", fact.Object{APIVersion: "v1", Kind: "ConfigMap"}, "", ""},
	}
	for _, test := range tests {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			value, err := store.Resolve(t.Context(), &test.ref)
			if (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Errorf("error = %v, want one with %q", err, test.err)
			}
			if test.want == "" && value != nil {
				t.Errorf("Resolve = %#v, want nil", value)
			}
			if test.want != "" && fullName(value) != test.want {
				t.Errorf("Resolve = %s, want %s", fullName(value), test.want)
			}
		})
	}
}

func TestResolveAll(t *testing.T) {
	t.Parallel()
	trees, err := object.Decode([]byte(cluster + `---
apiVersion: v1
kind: Node
metadata: {name: n2, labels: {tier: web}}
`))
	if err != nil {
		t.Fatalf("Decode: %v", err)
	}
	store := object.FromTrees(trees)
	for _, test := range []struct {
		reason string
		ref    fact.Object
		want   string
		err    string
	}{
		{"of all namespaces, in order", fact.Object{Kind: "ConfigMap"}, "bank/z shop/a shop/b", ""},
		{"of a namespace", fact.Object{Kind: "ConfigMap", Namespace: "shop"}, "shop/a shop/b", ""},
		{"of a namespace without any", fact.Object{Kind: "ConfigMap", Namespace: "none"}, "", ""},
		{"cluster-scoped ones", fact.Object{Kind: "Node"}, "/n2", ""},
		{"cluster-scoped ones, for any scope", fact.Object{Kind: "Node", Namespace: "shop", AnyScope: true}, "/n2", ""},
		{"cluster-scoped ones of a namespace", fact.Object{Kind: "Node", Namespace: "shop"}, "", "live in no namespace"},
		{"a namespaced kind without namespace is not selected everywhere", fact.Object{Kind: "ConfigMap", AnyScope: true}, "", "live in namespaces, and none is given"},
		{"nothing is known of the kind", fact.Object{Kind: "Widget", AnyScope: true}, "", ""},
	} {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			ref := test.ref
			ref.APIVersion, ref.Selector, ref.All = "v1", label("web"), true
			value, err := store.Resolve(t.Context(), &ref)
			if (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Fatalf("error = %v, want one with %q", err, test.err)
			}
			var names []string
			list, ok := value.([]any)
			for _, o := range list {
				names = append(names, fullName(o))
			}
			if got := strings.Join(names, " "); got != test.want || ok == (test.err != "") {
				t.Errorf("Resolve = %#v, want a list of %q", value, test.want)
			}
		})
	}
}

func TestResolveNoObject(t *testing.T) {
	t.Parallel()
	if _, err := object.FromTrees(nil).Resolve(t.Context(), &fact.HTTP{Method: "GET", URL: "https://h"}); err == nil {
		t.Error("an HTTP ref was resolved")
	}
}

func TestTheLaterObjectCounts(t *testing.T) {
	t.Parallel()
	trees, err := object.Decode([]byte(`[]`))
	if err == nil {
		t.Errorf("Decode of a list = %v, want an error", trees)
	}
	trees, err = object.Decode([]byte(`{"apiVersion":"v1","kind":"Node","metadata":{"name":"n"},"spec":{"v":1}} {"apiVersion":"v1","kind":"Node","metadata":{"name":"n"},"spec":{"v":2}}`))
	if err != nil {
		t.Fatalf("Decode: %v", err)
	}
	value, err := object.FromTrees(trees).Resolve(t.Context(), &fact.Object{APIVersion: "v1", Kind: "Node", Name: "n"})
	if err != nil {
		t.Fatalf("Resolve: %v", err)
	}
	if diff := cmp.Diff(map[string]any{"v": int64(2)}, value.(map[string]any)["spec"]); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
}

func TestLoad(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for path, text := range map[string]string{
		"all.yaml":            cluster,
		"sub/list.yml":        "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Pod, metadata: {name: p, namespace: shop}}\n- {apiVersion: v1, kind: Node, metadata: {name: n2}}\n",
		"sub/typed.json":      "{\n\t\"apiVersion\": \"apps/v1\", \"kind\": \"DeploymentList\", \"items\": [{\"metadata\": {\"name\": \"d\", \"namespace\": \"shop\"}, \"spec\": {\"replicas\": 2}}]\n}",
		"empty.yaml":          "# nothing\n---\n",
		".hidden/secret.yaml": "not: an object",
		"README.md":           "not an object",
	} {
		write(t, filepath.Join(dir, path), text)
	}
	trees, err := object.Load(dir)
	if err != nil {
		t.Fatalf("Load: %v", err)
	}
	var got []string
	for _, tree := range trees {
		got = append(got, fmt.Sprintf("%s %s %s", tree["apiVersion"], tree["kind"], fullName(tree)))
	}
	want := []string{
		"v1 ConfigMap shop/b", "v1 ConfigMap shop/a", "v1 ConfigMap bank/z", "v1 Namespace /shop", "v1 Node /n1",
		"v1 Pod shop/p", "v1 Node /n2", "apps/v1 Deployment shop/d",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("objects (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]any{"replicas": int64(2)}, trees[7]["spec"]); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
}

func TestLoadErrors(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	tests := []struct{ reason, name, text, want string }{
		{"a missing file", "missing.yaml", "", "no such file"},
		{"broken YAML", "broken.yaml", "a: [", "broken.yaml: decode document 1"},
		{"a document that is no object", "text.yaml", "just text", "text.yaml: decode document 1"},
		{"no kind", "kind.yaml", "apiVersion: v1\nmetadata: {name: a}", "kind.yaml: document 1: kind is missing"},
		{"no apiVersion", "version.yaml", "kind: A\nmetadata: {name: a}", "apiVersion is missing"},
		{"no name", "name.yaml", "apiVersion: v1\nkind: A", "v1 A: metadata.name is missing"},
		{"a bad item", "item.yaml", "apiVersion: v1\nkind: List\nitems: [{}]", "items[0]: apiVersion is missing"},
		{"an item that is no object", "scalar.yaml", "apiVersion: v1\nkind: List\nitems: [1]", "items[0]: not an object"},
	}
	for _, test := range tests {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(dir, test.name)
			if test.text != "" {
				write(t, path, test.text)
			}
			if _, err := object.Load(path); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error = %v, want one with %q", err, test.want)
			}
		})
	}
}

// TestLoadRefusesDevices: some have no end.
func TestLoadRefusesDevices(t *testing.T) {
	t.Parallel()
	if _, err := object.Load("/dev/zero"); err == nil || !strings.Contains(err.Error(), "/dev/zero: it is a device") {
		t.Errorf("error = %v", err)
	}
}

func BenchmarkResolve(b *testing.B) {
	var trees []map[string]any
	for i := range 1000 {
		trees = append(trees, map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": fmt.Sprint(i), "namespace": "shop"}})
	}
	store := object.FromTrees(trees)
	ref := &fact.Object{APIVersion: "v1", Kind: "ConfigMap", Namespace: "shop", Name: "500"}
	for b.Loop() {
		if _, err := store.Resolve(b.Context(), ref); err != nil {
			b.Fatal(err)
		}
	}
}

type label string

func (l label) Matches(tree map[string]any) bool {
	metadata, _ := tree["metadata"].(map[string]any)
	labels, _ := metadata["labels"].(map[string]any)
	return labels["tier"] == string(l)
}

func (l label) String() string { return "tier=" + string(l) }

func fullName(value any) string {
	tree, _ := value.(map[string]any)
	metadata, _ := tree["metadata"].(map[string]any)
	namespace, _ := metadata["namespace"].(string)
	name, _ := metadata["name"].(string)
	return namespace + "/" + name
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

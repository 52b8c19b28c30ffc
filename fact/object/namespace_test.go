package object_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/fact/object"
)

func TestNamespacesAreAsAPIServersMakeThem(t *testing.T) {
	t.Parallel()
	given := []map[string]any{
		{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "shop", "labels": map[string]any{"env": "prod"}}},
		{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "bare"}},
		{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "default", "labels": map[string]any{"env": "test"}}},
		{"apiVersion": "v1", "kind": "Namespace"},
		{"apiVersion": "example.com/v1", "kind": "Namespace", "metadata": map[string]any{"name": "shop"}},
	}
	store := object.FromTrees(given)
	for _, row := range []struct {
		reason, apiVersion, name string
		want                     any
	}{
		{"a label is added", "v1", "shop", map[string]any{"env": "prod", "kubernetes.io/metadata.name": "shop"}},
		{"also to a namespace without labels", "v1", "bare", map[string]any{"kubernetes.io/metadata.name": "bare"}},
		{"every cluster has this one", "v1", "kube-system", map[string]any{"kubernetes.io/metadata.name": "kube-system"}},
		{"which may have more labels", "v1", "default", map[string]any{"env": "test", "kubernetes.io/metadata.name": "default"}},
		{"a kind of another group is left alone", "example.com/v1", "shop", nil},
	} {
		value, err := store.Resolve(t.Context(), &fact.Object{APIVersion: row.apiVersion, Kind: "Namespace", Name: row.name})
		if err != nil {
			t.Fatalf("%s: %v", row.reason, err)
		}
		got := value.(map[string]any)["metadata"].(map[string]any)["labels"]
		if diff := cmp.Diff(row.want, got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", row.reason, diff)
		}
	}
	if labels := given[0]["metadata"].(map[string]any)["labels"]; len(labels.(map[string]any)) != 1 {
		t.Errorf("the given object was changed: %v", labels)
	}
}

package report_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/internal/report"
)

// TestNothingIsExemptAnyMore: exemptions are withdrawn with the policies, since nothing reads them.
func TestNothingIsExemptAnyMore(t *testing.T) {
	t.Parallel()
	exemption := func(name, valid string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "usher.dev/v1alpha1", "kind": "ClusterPolicyExemption", "metadata": map[string]any{"name": name, "uid": name},
			"status": map[string]any{"uses": int64(3), "conditions": []any{map[string]any{"type": "Valid", "status": valid, "reason": "Valid", "message": "", "lastTransitionTime": "2030-01-01T00:00:00Z"}}},
		}}
	}
	lists := map[schema.GroupVersionResource]string{}
	for _, kind := range api.Kinds() {
		lists[kind.GroupVersionResource()] = kind.Kind + "List"
	}
	client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), lists, exemption("one", "True"), exemption("expired", "False"))
	var written []string
	client.PrependReactor("patch", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		patch, ok := action.(clienttesting.PatchAction)
		if !ok {
			t.Fatalf("expected a patch, got %v", action)
		}
		written = append(written, patch.GetName()+": "+string(patch.GetPatch()))
		return true, exemption(patch.GetName(), "False"), nil
	})
	n, err := report.Withdraw(t.Context(), client, "Uninstalled", "nobody asks")
	if err != nil || n != 1 || len(written) != 1 {
		t.Fatalf("%d statuses, %v: %s", n, err, written)
	}
	for _, part := range []string{"one: ", `"status":"False"`, `"reason":"Uninstalled"`, `"uses":3`} {
		if !strings.Contains(written[0], part) {
			t.Errorf("no %s in %s", part, written[0])
		}
	}
}

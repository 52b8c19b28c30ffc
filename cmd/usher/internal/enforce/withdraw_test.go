package enforce_test

import (
	"bytes"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/cmd/usher/internal/enforce"
)

// TestUninstalledPoliciesSaySo: after an uninstallation the status of each policy says that it is not enforced, and
// why; what cannot be written is said, and stops nothing.
func TestUninstalledPoliciesSaySo(t *testing.T) {
	t.Parallel()
	policy := func(name, enforced string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "usher.dev/v1alpha1", "kind": "ClusterObjectPolicy", "metadata": map[string]any{"name": name, "uid": name},
			"status": map[string]any{"conditions": []any{map[string]any{"type": "Enforced", "status": enforced, "reason": "Enforced", "message": "", "lastTransitionTime": "2030-01-01T00:00:00Z"}}},
		}}
	}
	lists := map[schema.GroupVersionResource]string{}
	for _, kind := range api.Kinds() {
		lists[kind.GroupVersionResource()] = kind.Kind + "List"
	}
	for _, row := range []struct {
		reason, out, err string
		refused          bool
		want             string
	}{
		{"written", "policies whose status says now that they are not enforced: 1\n", "", false, `"reason":"Uninstalled"`},
		{"no right", "", "the status of policies may still say that they are enforced: ", true, ""},
	} {
		client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), lists, policy("one", "True"), policy("never", "False"))
		written := ""
		client.PrependReactor("patch", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
			patch, ok := action.(clienttesting.PatchAction)
			if !ok || row.refused {
				return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "clusterobjectpolicies"}, "one", nil)
			}
			written += patch.GetName() + "/" + patch.GetSubresource() + ": " + string(patch.GetPatch())
			return true, policy(patch.GetName(), "False"), nil
		})
		var out, err bytes.Buffer
		enforce.Withdraw(t.Context(), client, cli.Streams{Out: &out, Err: &err})
		if out.String() != row.out || !strings.Contains(err.String(), row.err) || row.err == "" && err.Len() > 0 {
			t.Errorf("%s: printed %q and %q", row.reason, out.String(), err.String())
		}
		if !strings.Contains(written, row.want) || row.want != "" && !strings.HasPrefix(written, "one/status: ") || strings.Contains(written, "never/") {
			t.Errorf("%s: written: %s", row.reason, written)
		}
	}
}

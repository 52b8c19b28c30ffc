package transport_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/usher-dev/usher/door/transport"
	"github.com/usher-dev/usher/live"
	"github.com/usher-dev/usher/source/dir"
)

// TestWhatIsNotCoveredIsNotRead: a client that may write what no policy is about needs no rights to read it. Of the
// kinds in the scheme the kind is known before; of others the resource decides.
func TestWhatIsNotCoveredIsNotRead(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	policies := `{apiVersion: usher.dev/v1alpha1, kind: ClusterObjectPolicy, metadata: {name: owner}, spec: {
		matchConstraints: {resourceRules: [{apiGroups: ["", shop.example.com], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [pods, configmaps, orders]}]},
		validations: [{expression: "has(object.metadata.labels)", message: labels are required}]}}
---
{apiVersion: policy.kcloudlabs.io/v1alpha1, kind: ClusterOverridePolicy, metadata: {name: team}, spec: {
	resourceSelectors: [{apiVersion: v1, kind: Service}, {apiVersion: kinds.example.com/v1, kind: Cart}],
	overrideRules: [{targetOperations: [CREATE, UPDATE], overriders: {plaintext: [{path: /metadata/annotations, op: add, value: {team: shop}}]}}]}}`
	if err := os.WriteFile(filepath.Join(folder, "policies.yaml"), []byte(policies), 0o600); err != nil {
		t.Fatal(err)
	}
	l := live.New(live.Options{InProcess: true})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { _ = l.Run(ctx, dir.New(folder)) }()
	if err := l.WaitLoaded(ctx); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		reason, method, path string
		read                 bool
	}{
		{"a deletion of another kind", "DELETE", "/api/v1/namespaces/shop/secrets/a", false},
		{"a deletion, which no policy is about", "DELETE", "/api/v1/namespaces/shop/pods/a", false},
		{"a collection", "DELETE", "/api/v1/namespaces/shop/configmaps", false},
		{"a patch of another kind", "PATCH", "/api/v1/namespaces/shop/secrets/a", false},
		{"a patch of a kind that a policy names by its resource", "PATCH", "/api/v1/namespaces/shop/pods/a", true},
		{"a patch of a kind that a policy names", "PATCH", "/api/v1/namespaces/shop/services/a", true},
		{"a patch of a custom resource that a policy names", "PATCH", "/apis/shop.example.com/v1/namespaces/shop/orders/a", true},
		{"another custom resource", "PATCH", "/apis/shop.example.com/v1/namespaces/shop/bills/a", false},
		{"a custom resource of a group with a kind that a policy names", "PATCH", "/apis/kinds.example.com/v1/namespaces/shop/carts/a", true},
		{"a scale, which may be of any kind", "PATCH", "/apis/apps/v1/namespaces/shop/deployments/a/scale", true},
	} {
		steps := []step{{method: row.method, path: row.path}}
		code := 200
		if row.read {
			steps, code = []step{{method: "GET", path: row.path, code: 403}}, 500
			if at, is := strings.CutSuffix(row.path, "/scale"); is {
				steps = append(steps, step{method: "GET", path: at, code: 403})
			}
		}
		server := serve(t, steps...)
		client := wrapped(t, server, l.Decide, transport.Options{Covers: l.Covers})
		media, body := "application/merge-patch+json", `{}`
		if row.method == "DELETE" {
			media, body = "", ""
		}
		if got, message := do(t, client, row.method, server+row.path, media, body); got != code {
			t.Errorf("%s: code %d (%s), want %d", row.reason, got, message, code)
		}
	}
}

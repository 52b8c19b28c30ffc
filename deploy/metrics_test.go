package deploy_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Prometheus reads names over HTTPS with its token, and verifies who gets the token; without names,
// and where the port of the webhooks is closed to it, at the port that everybody reads.
func TestServiceMonitor(t *testing.T) {
	t.Parallel()
	const on = "metrics.serviceMonitor.enabled=true"
	named := func(secret string) map[string]any {
		return map[string]any{
			"port": "metrics-https", "path": "/metrics", "scheme": "https", "interval": "30s",
			"bearerTokenFile": "/var/run/secrets/kubernetes.io/serviceaccount/token",
			"tlsConfig": map[string]any{
				"serverName": "usher.usher-system.svc", "ca": map[string]any{"secret": map[string]any{"name": secret, "key": "ca.crt"}},
			},
		}
	}
	nameless := map[string]any{"port": "metrics", "path": "/metrics", "interval": "30s"}
	for _, test := range []struct {
		reason, set string
		want        map[string]any
	}{
		{"by default, with names", on, named("usher-cert")},
		{"the certificate is that of somebody else", on + ",certificate.existingSecret=tls", named("tls")},
		{"names are not asked for", on + ",metrics.serviceMonitor.names=false", nameless},
		{"the port of the webhooks is closed to Prometheus", on + ",networkPolicy.apiServerCIDRs={10.0.0.0/8}", nameless},
		{"and open to it", on + ",networkPolicy.apiServerCIDRs={10.0.0.0/8},networkPolicy.metricsFrom[0].podSelector.matchLabels.a=b", named("usher-cert")},
	} {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			objects := (&rendering{args: []string{"--set", test.set}}).objects(t)
			found := 0
			for _, monitor := range only[*unstructured.Unstructured](objects) {
				if monitor.GetKind() != "ServiceMonitor" {
					continue
				}
				endpoints, _, err := unstructured.NestedSlice(monitor.Object, "spec", "endpoints")
				if diff := cmp.Diff([]any{test.want}, endpoints); diff != "" || err != nil {
					t.Errorf("endpoints: %v (-want +got):\n%s", err, diff)
				}
				found++
			}
			if found != 1 {
				t.Errorf("%d ServiceMonitors, want 1", found)
			}
		})
	}
}

// Readers of names are bound to a role that has nothing else.
func TestReadersOfNames(t *testing.T) {
	t.Parallel()
	reader := rbacv1.Subject{Kind: "ServiceAccount", Name: "prometheus", Namespace: "monitoring"}
	objects := (&rendering{args: []string{"--set", "metrics.readers[0].kind=ServiceAccount,metrics.readers[0].name=prometheus,metrics.readers[0].namespace=monitoring"}}).objects(t)
	for _, binding := range only[*rbacv1.ClusterRoleBinding](objects) {
		if binding.Name == "usher-metrics" {
			if diff := cmp.Diff([]rbacv1.Subject{reader}, binding.Subjects); diff != "" || binding.RoleRef.Name != "usher-metrics" {
				t.Errorf("role %s for (-want +got):\n%s", binding.RoleRef.Name, diff)
			}
			return
		}
	}
	t.Error("nobody is bound")
}

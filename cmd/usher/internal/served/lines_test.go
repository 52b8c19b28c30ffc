package served_test

import (
	"testing"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/cmd/usher/internal/served"
	"github.com/usher-dev/usher/internal/observe/recent"
)

// TestExemptLine: the line names an object that the cluster has; those of some subresources are not stored.
func TestExemptLine(t *testing.T) {
	t.Parallel()
	const after = " -n shop --reason WHY --owner WHO"
	for _, row := range []struct{ reason, kind, resource, subresource, want string }{
		{"the object itself", "Deployment", "deployments", "", "usher exempt --from-cluster deployment/web" + after},
		{"the workload that is scaled, since a Scale is not stored", "Scale", "deployments", "scale", "usher exempt --from-cluster deployments/web" + after},
		{"the pod that is debugged", "Pod", "pods", "ephemeralcontainers", "usher exempt --from-cluster pod/web" + after},
		{"an Eviction is not stored, and the exemption of a pod is not for it", "Eviction", "pods", "eviction", ""},
		{"nor are the options of exec", "PodExecOptions", "pods", "exec", ""},
	} {
		got := served.ExemptLine(&recent.Decision{Verdict: string(usher.Deny), Request: recent.Request{
			Phase: string(usher.Validate), Operation: string(usher.Update), Kind: row.kind, Resource: row.resource, Subresource: row.subresource, Namespace: "shop", Name: "web",
		}})
		if got != row.want {
			t.Errorf("%s: %q, want %q", row.reason, got, row.want)
		}
	}
}

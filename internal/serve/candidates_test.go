package serve_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/usher-dev/usher/internal/serve"
)

// TestCandidatesInFiles: a server evaluates the candidates in its files, and its metrics have what they count.
func TestCandidatesInFiles(t *testing.T) {
	t.Parallel()
	const candidates = `
apiVersion: usher.dev/v1alpha1
kind: ClusterPolicyCandidate
metadata: {name: secrets-again}
spec: {remove: true, replaces: {kind: ClusterAuthorizationPolicy, name: no-secrets}}
---
apiVersion: usher.dev/v1alpha1
kind: ClusterPolicyCandidate
metadata: {name: misnamed}
spec: {remove: true, replaces: {kind: ClusterObjectPolicy, name: no-such-policy}}
---
apiVersion: usher.dev/v1alpha1
kind: ClusterPolicyCandidate
metadata: {name: no-config}
spec:
  policies:
  - apiVersion: usher.dev/v1alpha1
    kind: ClusterObjectPolicy
    metadata: {name: no-config}
    spec:
      matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]}
      validations: [{expression: "false", message: "no"}]
`
	const admission = `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","operation":"CREATE","namespace":"shop","name":"a",
"kind":{"version":"v1","kind":"ConfigMap"},"resource":{"version":"v1","resource":"configmaps"},"requestKind":{"version":"v1","kind":"ConfigMap"},"requestResource":{"version":"v1","resource":"configmaps"},
"object":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"shop"}},"userInfo":{"username":"jane"}}}`
	counted := func(name, result string, n int) string {
		return fmt.Sprintf(`usher_candidate_decisions_total{candidate_kind="ClusterPolicyCandidate",candidate_name=%q,candidate_namespace="",result=%q} %d`, name, result, n)
	}
	for _, authorizes := range []bool{false, true} {
		ours, dir := newAuthority(t), t.TempDir()
		write(t, filepath.Join(dir, "clients.crt"), string(ours.pem))
		policies, proposed := filepath.Join(dir, "policies.yaml"), filepath.Join(dir, "candidates.yaml")
		write(t, policies, accessPolicies)
		write(t, proposed, candidates)
		config := serve.Config{Policies: []string{policies, proposed}, Listen: serve.Listening{MetricsAddress: "127.0.0.1:0"}}
		if authorizes {
			config.Authorization = &serve.Authorization{Address: "127.0.0.1:0", Callers: serve.Callers{ClientCAFile: filepath.Join(dir, "clients.crt"), ClientNames: []string{"kube-apiserver"}}}
		}
		h := start(t, config)
		h.eventually("the policies are loaded", func() bool { return h.status("/readyz") == 200 })
		if body, _ := h.post("/validate", []byte(admission)); !strings.Contains(body, `"allowed":true`) {
			t.Errorf("a candidate has an effect: %s", body)
		}
		want := []string{counted("no-config", "denied", 1)}
		if authorizes {
			known := h.as(ours.issue(t, "kube-apiserver"))
			for _, path := range []string{"/authorize", "/authorize/deny", "/authorize/allow"} {
				if _, _, denied := h.ask(known, path, "secrets"); denied != (path != "/authorize/allow") {
					t.Errorf("%s: denied %t", path, denied)
				}
			}
			want = append(want, counted("secrets-again", "seen", 3), counted("secrets-again", "no_opinion", 2))
		}
		body := h.get("/readyz?verbose")
		if strings.Contains(body, "secrets-again") == authorizes {
			t.Errorf("authorizes requests: %t, and /readyz says\n%s", authorizes, body)
		}
		for _, line := range []string{
			"candidates that are not evaluated: ", "ClusterPolicyCandidate misnamed: spec.replaces: there is no ClusterObjectPolicy no-such-policy in force",
			"spec.replaces.name: there is no ClusterObjectPolicy no-such-policy in force here",
		} {
			if !strings.Contains(body, line) {
				t.Errorf("/readyz does not say %q:\n%s", line, body)
			}
		}
		h.eventually("all is counted", func() bool {
			metrics := h.metrics()
			for _, line := range want {
				if !strings.Contains(metrics, line) {
					return false
				}
			}
			return authorizes || !strings.Contains(metrics, `candidate_name="secrets-again"`)
		})
		h.stop()
	}
}

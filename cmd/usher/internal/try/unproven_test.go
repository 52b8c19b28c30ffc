package try_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/usher-dev/usher/cmd/internal/cli"
)

// TestUnprovenPolicies: policies and exemptions of a cluster that Usher does not enforce, because they are not proven,
// decide nothing here either, and are named. Files count in their place.
func TestUnprovenPolicies(t *testing.T) {
	t.Parallel()
	const condition = `,"status":{"conditions":[{"type":"Proven","status":"False","observedGeneration":%d,"message":"not in force: it has no proof"}]}}`
	exemption := `{"apiVersion":"usher.dev/v1alpha1","kind":"PolicyExemption","metadata":{"name":"x","namespace":"shop","generation":1},"spec":{"reason":"r","owner":"o",
		"expiresAt":"2099-01-01T00:00:00Z","policyRefs":[{"kind":"ObjectPolicy","name":"named"}]}`
	policy := strings.TrimSuffix(strings.Replace(tenantPolicy, `"metadata":{`, `"metadata":{"generation":1,`, 1), "}")
	cluster := func(policy, exemption string) string {
		const group = "/apis/usher.dev/v1alpha1/"
		known := shop()
		known[group+"objectpolicies"] = `{"apiVersion":"usher.dev/v1alpha1","kind":"ObjectPolicyList","metadata":{},"items":[` + policy + `]}`
		known[group+"policyexemptions"] = `{"apiVersion":"usher.dev/v1alpha1","kind":"PolicyExemptionList","metadata":{},"items":[` + exemption + `]}`
		return kubeconfig(t, known)
	}
	unproven, edited := fmt.Sprintf(condition, 1), fmt.Sprintf(condition, 0)
	for name, text := range map[string]string{"proven": "}", "edited since": edited} {
		out, stderr, status := decideClosed(t, "decide", cluster(policy+"}", exemption+text))
		if status != cli.ExitOK || strings.Contains(out, "not in force") {
			t.Errorf("%s: status %d:\n%s%s", name, status, out, stderr)
		}
	}
	const line = "not in force: PolicyExemption shop/x is unproven (usher authz adopt): it has no proof\n"
	for _, command := range []string{"decide", "explain", "exempt", "exempt --if-denied"} {
		out, stderr, status := decideClosed(t, command, cluster(policy+"}", exemption+unproven))
		want := cli.ExitNegative
		if strings.HasPrefix(command, "exempt") {
			want = cli.ExitOK
		}
		if status != want || !strings.Contains(out+stderr, line) {
			t.Errorf("%s with an unproven exemption: status %d:\n%s%s", command, status, out, stderr)
		}
		out, stderr, status = decideClosed(t, command, cluster(policy+unproven, ""))
		if status != cli.ExitNegative-want || !strings.Contains(out+stderr, "not in force: ObjectPolicy shop/named is unproven") {
			t.Errorf("%s with an unproven policy: status %d:\n%s%s", command, status, out, stderr)
		}
	}
	out, stderr, _ := decideClosed(t, "decide -o json", cluster(policy+unproven, ""))
	var report struct {
		Unproven []struct {
			Policy struct{ Name string }
			Why    string
		}
	}
	if err := json.Unmarshal([]byte(out), &report); err != nil || len(report.Unproven) != 1 || report.Unproven[0].Policy.Name != "named" || report.Unproven[0].Why != "it has no proof" {
		t.Errorf("for machines: %v:\n%s%s", err, out, stderr)
	}
	file := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(file, []byte(policy+unproven), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, stderr, status := decideClosed(t, "decide -p "+file, cluster(policy+unproven, "")); status != cli.ExitNegative || strings.Contains(out, "not in force") {
		t.Errorf("in a file: status %d:\n%s%s", status, out, stderr)
	}
}

// decideClosed has a command decide an object that tenantPolicy refuses.
func decideClosed(t *testing.T, command, kubeconfig string) (out, stderr string, status int) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "object.yaml")
	if err := os.WriteFile(file, []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"closed","namespace":"shop"}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	args := append(strings.Fields(command), "-f", file, "-n", "shop", "--from-cluster", "--kubeconfig", kubeconfig)
	if strings.HasPrefix(command, "exempt") {
		args = append(args, "--reason", "r", "--owner", "o", "--namespaced")
	}
	return executed(t, args)
}

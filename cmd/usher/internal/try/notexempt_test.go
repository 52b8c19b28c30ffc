package try_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestExemptionsThatDoNotApply: decide tells those that nearly apply, for the pods of workloads too, and counts those for
// other objects, which explain lists.
func TestExemptionsThatDoNotApply(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	exemption := func(name, of, expires string) string {
		return `{"apiVersion":"usher.dev/v1alpha1","kind":"ClusterPolicyExemption","metadata":{"name":"` + name + `"},"spec":{"policyRefs":[{"kind":"ClusterObjectPolicy","name":"none"}],` +
			`"matchConstraints":{"resourceRules":[{"apiGroups":["*"],"apiVersions":["*"],"operations":["*"],"resources":["*"],"scope":"*"}],"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":"` + of + `"}}},` +
			`"reason":"r","owner":"o","expiresAt":"` + expires + `"}}`
	}
	files := map[string]string{
		"policies.yaml": strings.Join([]string{
			`{apiVersion: usher.dev/v1alpha1, kind: ClusterObjectPolicy, metadata: {name: none}, spec: {podTemplates: "Off", ` +
				`matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}, validations: [{expression: "false", message: none}]}}`,
			exemption("past", "shop", "2020-01-01T00:00:00Z"), exemption("other", "ci", "2999-01-01T00:00:00Z"), exemption("gone", "ci", "2020-01-01T00:00:00Z"),
		}, "\n---\n"),
		"facts.yaml": `{apiVersion: v1, kind: Namespace, metadata: {name: shop, labels: {kubernetes.io/metadata.name: shop}}}`,
		"pod.yaml":   `{apiVersion: v1, kind: Pod, metadata: {name: web, namespace: shop}, spec: {containers: [{name: a, image: a}]}}`,
		"web.yaml": `{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: shop}, spec: {selector: {matchLabels: {app: x}},` +
			` template: {metadata: {labels: {app: x}}, spec: {containers: [{name: a, image: a}]}}}}`,
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const (
		expired = "ClusterPolicyExemption past: it expired "
		counted = "  not exempt: 2 exemptions for other objects, which 'usher explain' lists\n"
	)
	for _, c := range []struct {
		reason, command, file string
		want, not             string
	}{
		{"the one that nearly applies", "decide", "pod.yaml", "    not exempt: " + expired, "ClusterPolicyExemption other"},
		{"the others, counted", "decide", "pod.yaml", counted, "ClusterPolicyExemption gone"},
		{"all", "explain", "pod.yaml", "not exempt: ClusterPolicyExemption other: ", counted},
		{"for the pods of a workload, which are judged by themselves", "decide", "web.yaml", "  warning: ClusterPolicyExemption past does not exempt from ClusterObjectPolicy none: it expired ", "ClusterPolicyExemption other"},
	} {
		out, stderr, _ := executed(t, []string{c.command, "-p", filepath.Join(dir, "policies.yaml"), "--facts", filepath.Join(dir, "facts.yaml"), filepath.Join(dir, c.file)})
		if !strings.Contains(out, c.want) || strings.Contains(out, c.not) {
			t.Errorf("%s: want %q and not %q:\n%s%s", c.reason, c.want, c.not, out, stderr)
		}
	}
}

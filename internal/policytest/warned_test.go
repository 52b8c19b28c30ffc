package policytest_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/usher-dev/usher/internal/policytest"
)

// TestWhatOnlyWarnsIsNamed: a policy that failed the object and denies nothing did not pass it, and its field that says so is named.
func TestWhatOnlyWarnsIsNamed(t *testing.T) {
	t.Parallel()
	const pod = `{apiVersion: v1, kind: Pod, metadata: {name: web, namespace: shop}, spec: {nodeName: a, containers: []}}`
	const workload = `{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: shop}, spec: {template: {spec: {nodeName: a, containers: []}}}}`
	for _, row := range []struct{ reason, actions, object, want string }{
		{"a warning", "Warn", pod, "spec.validations warned, and did not deny (validationActions: [Warn])"},
		{"an audit annotation", "Audit", pod, "spec.validations audited, and did not deny (validationActions: [Audit])"},
		{"both", "Warn, Audit", pod, "spec.validations warned, and did not deny (validationActions: [Audit, Warn])"},
		{"the pod of a workload", "Deny", workload, "spec.podTemplates warned, and did not deny (podTemplates: Warn) (the pod of Deployment shop/web)"},
		{"the pod of a workload, which would not be denied either", "Warn", workload, "spec.podTemplates warned, and did not deny (validationActions: [Warn]) (the pod of Deployment shop/web)"},
		{"nothing failed", "Warn", strings.Replace(pod, "nodeName: a, ", "", 1), "spec.validations passed"},
	} {
		_, tests := testsOf(t, fmt.Sprintf(`
name: denied
phase: validate
policies:
- apiVersion: usher.dev/v1alpha1
  kind: ClusterObjectPolicy
  metadata: {name: p}
  spec:
    matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}
    validations: [{expression: "!has(object.spec.nodeName)"}]
    bindings: [{validationActions: [%s]}]
request: {operation: CREATE, namespace: shop, object: %s}
expect: {allowed: false}
`, row.actions, row.object))
		want := "expected the request to be denied, it is allowed; ClusterObjectPolicy p " + row.want
		if result := tests[0].Run(t.Context()); result.Status != policytest.Failed || result.Message != want {
			t.Errorf("%s: %s: %q, want %q", row.reason, result.Status, result.Message, want)
		}
	}
}

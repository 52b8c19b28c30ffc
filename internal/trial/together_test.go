package trial_test

import (
	"fmt"
	"strings"
	"testing"
)

// What is the same of several kinds is said once, of the kinds that a policy of a namespace can see, and with
// advice for its kind.
func TestPoliciesForEverythingAreToldOnce(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		reason, text, resources, expression, want string
	}{
		{
			"for every resource", "{apiVersion: usher.dev/v1alpha1, kind: ObjectPolicy, metadata: {name: p, namespace: shop}, spec: %s}", "'*'", "false",
			"every ConfigMap, Deployment, Ingress, Pod and Service that it was tried on would be refused, on CREATE, UPDATE and DELETE: closed; " +
				"name operations: [CREATE] in spec.matchConstraints.resourceRules, so that those that exist can be changed and deleted",
		},
		{
			"of the cluster", "{apiVersion: usher.dev/v1alpha1, kind: ClusterObjectPolicy, metadata: {name: p}, spec: %s}", "'*'", "false",
			"every ConfigMap, Deployment, Ingress, Namespace, Pod and Service that it was tried on",
		},
		{
			"a rule that fails", "{apiVersion: usher.dev/v1alpha1, kind: ObjectPolicy, metadata: {name: p, namespace: shop}, spec: %s}", "pods, configmaps, namespaces, secrets", "object.metadata.name == 'x'",
			"every DELETE of a ConfigMap and Pod would be refused, because the rule fails",
		},
	} {
		spec := fmt.Sprintf(`{matchConstraints: {resourceRules: [{apiGroups: ["*"], apiVersions: ["*"], operations: ["*"], resources: [%s]}]}, validations: [{expression: "%s", message: closed}]}`,
			row.resources, row.expression)
		var got []string
		for _, p := range tried(t).Problems(t.Context(), compiled(t, fmt.Sprintf(row.text, spec))) {
			if strings.Contains(p.What, "would be refused") {
				got = append(got, p.String())
			}
		}
		if len(got) != 1 || !strings.Contains(got[0], row.want) {
			t.Errorf("%s: %q, want one with %q", row.reason, got, row.want)
		}
	}
}

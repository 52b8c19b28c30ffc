package trial_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/usher-dev/usher/internal/rule"
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

// That a policy refuses everything is told however its operations are written: all of them, or each. Who may
// nevertheless is not known of one that asks who sends a request.
func TestEveryOperationIsAll(t *testing.T) {
	t.Parallel()
	const told = "every ConfigMap, Pod and Service that it was tried on would be refused, on CREATE, UPDATE and DELETE: closed"
	for _, row := range []struct {
		operations, resources, expression string
		told                              bool
	}{
		{`"*"`, "configmaps, pods, services", "request.name == 'xyz'", true},
		{"CREATE, UPDATE, DELETE", "configmaps, pods, services", "request.name == 'xyz'", true},
		{"DELETE, CREATE, UPDATE, CONNECT", "configmaps, pods, services", "request.name == 'ab' || request.name == 'cd'", true},
		{"CREATE, UPDATE, DELETE", `"*"`, "request.name == 'xyz'", true},
		{"DELETE", "configmaps, pods, services", "request.name == 'xyz'", false},
		{"CREATE, UPDATE, DELETE", "configmaps, pods, services", "request.name.startsWith('a-')", false},
		{`"*"`, "configmaps, pods, services", "'admins' in request.userInfo.groups", false},
	} {
		text := fmt.Sprintf(`{apiVersion: usher.dev/v1alpha1, kind: ObjectPolicy, metadata: {name: p, namespace: shop}, spec: {matchConstraints: `+
			`{resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [%s], resources: [%s]}]}, validations: [{expression: "%s", message: closed}]}}`,
			row.operations, row.resources, row.expression)
		found := tried(t).Problems(t.Context(), compiled(t, text))
		if got := slices.ContainsFunc(found, func(p rule.Problem) bool { return p.Field == "spec" && p.What == told }); got != row.told {
			t.Errorf("%v: told: %v, of %v", row, got, found)
		}
	}
}

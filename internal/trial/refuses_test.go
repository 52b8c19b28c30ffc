package trial_test

import (
	"fmt"
	"strings"
	"testing"
)

// TestPoliciesThatRefuseEverything: what refuses every request that it selects is told, unless the policy
// says for which requests it is.
func TestPoliciesThatRefuseEverything(t *testing.T) {
	t.Parallel()
	const (
		creations = `matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]}`
		never     = `validations: [{expression: "true"}, {expression: "false", message: "no"}]`
	)
	for _, row := range []struct {
		reason, spec string
		field        string
	}{
		{"a constant", creations + "\n" + never, "spec.validations[1].expression"},
		{"a comparison of constants", creations + "\nvalidations: [{expression: \"1 == 2 || 'a' in ['b']\"}]", "spec.validations[0].expression"},
		{"conditions that are always true", creations + "\nmatchConditions: [{name: a, expression: \"true\"}]\n" + never, "spec.validations[1].expression"},
		{"deletions", strings.Replace(creations, "CREATE", "DELETE", 1) + "\n" + never, "spec.validations[1].expression"},
		{"a binding among others", creations + "\nbindings: [{validationActions: [Audit]}, {validationActions: [Deny]}]\n" + never, "spec.validations[1].expression"},
		{"a condition", creations + "\nmatchConditions: [{name: a, expression: \"object.metadata.name == 'a'\"}]\n" + never, ""},
		{"a condition that is never true", creations + "\nmatchConditions: [{name: a, expression: \"false\"}]\n" + never, ""},
		{"users", creations + "\nsubjects: [{groups: [interns]}]\n" + never, ""},
		{"users that are left out", creations + "\nexcludeSubjects: [{groups: [admins]}]\n" + never, ""},
		{"labels of objects", strings.Replace(creations, "{resourceRules", "{objectSelector: {matchLabels: {a: b}}, resourceRules", 1) + "\n" + never, ""},
		{"labels of namespaces", strings.Replace(creations, "{resourceRules", "{namespaceSelector: {matchLabels: {a: b}}, resourceRules", 1) + "\n" + never, ""},
		{"names", strings.Replace(creations, "resources: [configmaps]", "resources: [configmaps], resourceNames: [a]", 1) + "\n" + never, ""},
		{"only warned of", creations + "\nbindings: [{validationActions: [Warn]}]\n" + never, ""},
		{"a binding for some requests", creations + "\nbindings: [{validationActions: [Deny], matchResources: {namespaceSelector: {matchLabels: {a: b}}}}]\n" + never, ""},
		{"nothing that is constant", creations + "\nvalidations: [{expression: \"object.metadata.name == 'a'\"}]", ""},
	} {
		for _, kind := range []string{"ClusterObjectPolicy", "ObjectPolicy"} {
			metadata := map[string]string{"ObjectPolicy": "{name: p, namespace: team-a}", "ClusterObjectPolicy": "{name: p}"}[kind]
			c := compiled(t, fmt.Sprintf("apiVersion: usher.dev/v1alpha1\nkind: %s\nmetadata: %s\nspec:\n  %s\n", kind, metadata, strings.ReplaceAll(row.spec, "\n", "\n  ")))
			field := ""
			for _, p := range tried(t).Try(t.Context(), c).Problems {
				if strings.Contains(p.What, "refuses every request that it selects") {
					field = p.Field
				}
			}
			if field != row.field {
				t.Errorf("%s, %s: told of %q, want %q", kind, row.reason, field, row.field)
			}
		}
	}
	secrets := compiled(t, "apiVersion: usher.dev/v1alpha1\nkind: ObjectPolicy\nmetadata: {name: p, namespace: team-a}\nspec:\n  "+strings.Replace(creations, "configmaps", "secrets", 1)+"\n  "+never+"\n")
	for _, p := range tried(t).Try(t.Context(), secrets).Problems {
		if strings.Contains(p.What, "refuses every request") {
			t.Errorf("a policy that acts on nothing: %v", p)
		}
	}
}

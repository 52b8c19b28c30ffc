package trial_test

import (
	"fmt"
	"strings"
	"testing"
)

// TestPoliciesOfSomeUsers: a policy is tried as if it were for all users, and may refuse everything of some.
func TestPoliciesOfSomeUsers(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ reason, expression, want string }{
		{"something is refused", "object.spec.replicas < 5", ""},
		{"nothing is refused", "object.spec.replicas != 5 || object.spec.replicas == 5", "refuses nothing"},
		{"each fails", "dyn(object).spec.?replicas.orValue(1).foo == 1", "because the rule fails"},
		{"each is refused", "object.metadata.name == 'x' && object.metadata.name == 'y'", ""},
	} {
		for _, users := range []string{"subjects: [{groups: [interns]}]", "excludeSubjects: [{users: [trial]}]"} {
			c := compiled(t, `apiVersion: usher.dev/v1alpha1
kind: ClusterObjectPolicy
metadata: {name: p}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: [CREATE], resources: [deployments]}]}
  `+users+`
  validations: [{message: "no", expression: "`+row.expression+`"}]
`)
			var texts []string
			for _, p := range tried(t).Try(t.Context(), c).Problems {
				texts = append(texts, p.What)
			}
			if all := strings.Join(texts, "\n"); (all == "") != (row.want == "") || !strings.Contains(all, row.want) {
				t.Errorf("%s, %s: %q, want %q", row.reason, users, all, row.want)
			}
		}
	}
}

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
		{"creations by what they are", strings.Replace(creations, "[CREATE]", "[CREATE, UPDATE]", 1) + "\nvalidations: [{expression: \"request.operation != 'CREATE'\"}]", "spec.validations[0].expression on CREATE"},
		{"another part of the request", creations + "\nvalidations: [{expression: \"request.resource.resource == 'pods'\"}]", ""},
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
				if _, on, told := strings.Cut(p.What, ": the policy refuses every "); told {
					field = p.Field
					if operation := strings.TrimSuffix(on, " that it selects"); operation != "request" {
						field += " on " + operation
					}
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

// TestRulesThatRefuseEverything: of kinitiras' policies the same is told.
func TestRulesThatRefuseEverything(t *testing.T) {
	t.Parallel()
	const never, some = `{cue: "object: _ @tag(object)\nvalidate: {valid: false, reason: \"closed\"}"%s}`, `{cue: "object: _ @tag(object)\nvalidate: {valid: object.metadata.name != \"a\"}"%s}`
	for _, row := range []struct{ reason, selectors, rules, field, which string }{
		{"everything", "", fmt.Sprintf(never, ""), "spec.validateRules[0]", "request"},
		{"all of a kind", "{apiVersion: v1, kind: Pod}", fmt.Sprintf(never, ""), "spec.validateRules[0]", "request"},
		{"creations", "{apiVersion: v1, kind: Pod}", fmt.Sprintf(some, "") + ", " + fmt.Sprintf(never, ", targetOperations: [CREATE]"), "spec.validateRules[1]", "CREATE"},
		{"one name", "{apiVersion: v1, kind: Pod, name: a}", fmt.Sprintf(never, ""), "", ""},
		{"some labels", "{apiVersion: v1, kind: Pod, labelSelector: {matchLabels: {a: b}}}", fmt.Sprintf(never, ""), "", ""},
		{"some objects", "{apiVersion: v1, kind: Pod}", fmt.Sprintf(some, ""), "", ""},
	} {
		c := compiled(t, fmt.Sprintf("{apiVersion: policy.kcloudlabs.io/v1alpha1, kind: ClusterValidatePolicy, metadata: {name: p}, spec: {resourceSelectors: [%s], validateRules: [%s]}}", row.selectors, row.rules))
		field, what, told := "", "", 0
		for _, p := range tried(t).Try(t.Context(), c).Problems {
			if told++; strings.Contains(p.What, "the rule refuses every") {
				field, what = p.Field, p.What
			}
		}
		want := ""
		if row.field != "" {
			want = "the rule refuses every " + row.which + " that it selects, whatever is in it"
		}
		if field != row.field || what != want || told > 1 {
			t.Errorf("%s: told %q of %q among %d, want %q of %q", row.reason, what, field, told, want, row.field)
		}
	}
}

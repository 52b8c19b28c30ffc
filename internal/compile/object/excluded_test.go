package object_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/usher-dev/usher/api/usher/v1alpha1"
	"github.com/usher-dev/usher/internal/compile/object"
	"github.com/usher-dev/usher/internal/rule"
)

// A policy of a namespace is for no other, so that a selector for another is a mistake.
func TestNamespaceSelectorsOfObjectPolicies(t *testing.T) {
	t.Parallel()
	for selector, warned := range map[string]bool{
		"{}": false,
		"{matchLabels: {kubernetes.io/metadata.name: team-a}}":                                        false,
		"{matchLabels: {kubernetes.io/metadata.name: team-b}}":                                        true,
		"{matchExpressions: [{key: kubernetes.io/metadata.name, operator: NotIn, values: [team-a]}]}": true,
		"{matchExpressions: [{key: kubernetes.io/metadata.name, operator: NotIn, values: [team-b]}]}": false,
		"{matchExpressions: [{key: kubernetes.io/metadata.name, operator: DoesNotExist}]}":            true,
		"{matchLabels: {env: prod}}": false,
		"{matchExpressions: [{key: kubernetes.io/metadata.name, operator: In, values: [team-a, other]}]}": false,
	} {
		p := &v1alpha1.ObjectPolicy{}
		p.Name, p.Namespace = "p", "team-a"
		text := "{matchConstraints: {namespaceSelector: " + selector + ", resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}, validations: [{expression: 'false'}]}"
		if err := yaml.UnmarshalStrict([]byte(text), &p.Spec); err != nil {
			t.Fatal(err)
		}
		_, problems := object.Namespaced(t.Context(), p, object.Options{})
		if got := fmt.Sprint(problems); strings.Contains(got, "namespaceSelector: it does not select the namespace team-a") != warned || len(problems) > 1 {
			t.Errorf("%s: %s, want a warning: %t", selector, got, warned)
		}
	}
}

// What a policy of a namespace names and never acts on is a warning, which names it.
func TestObjectPoliciesOnExcludedKinds(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		reason, groups, resources, allowed string
		want                               []string
	}{
		{"it acts on these", "''", "pods, configmaps", "", nil},
		{"Secrets", "''", "pods, secrets", "", []string{"1 secrets"}},
		{"a subresource", "''", "secrets/status", "", []string{"0 secrets/status"}},
		{"ServiceAccounts and their tokens", "''", "serviceaccounts, serviceaccounts/token", "", []string{"0 serviceaccounts", "1 serviceaccounts/token"}},
		{"who may act on ServiceAccounts makes no tokens", "''", "serviceaccounts, serviceaccounts/token", "ServiceAccount", []string{"1 serviceaccounts/token"}},
		{"reviews of tokens", "authentication.k8s.io", "tokenreviews", "", []string{"0 tokenreviews.authentication.k8s.io"}},
		{"RBAC", "rbac.authorization.k8s.io", "rolebindings", "", []string{"0 rolebindings.rbac.authorization.k8s.io"}},
		{"the operator allows one kind of a group", "rbac.authorization.k8s.io", "rolebindings, roles", "RoleBinding.rbac.authorization.k8s.io", []string{"1 roles.rbac.authorization.k8s.io"}},
		{"policies", "policy.kcloudlabs.io", "overridepolicies", "", []string{"0 overridepolicies.policy.kcloudlabs.io"}},
		{"exemptions", "usher.dev", "policyexemptions", "", []string{"0 policyexemptions.usher.dev"}},
		{"the operator allows a group", "usher.dev", "policyexemptions", "*.usher.dev", nil},
		{"all of a group that is excluded", "rbac.authorization.k8s.io", "'*'", "", []string{"0 *.rbac.authorization.k8s.io"}},
		{"a wildcard is for the others", "'*'", "'*'", "", nil},
		{"also of the core group", "''", "'*/*'", "", nil},
		{"Secrets of any group", "'*'", "secrets", "", []string{"0 secrets"}},
		{"a kind of another group that is called so", "example.com", "secrets", "", nil},
	} {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			p := &v1alpha1.ObjectPolicy{}
			p.Name, p.Namespace = "p", "team-a"
			text := fmt.Sprintf("{matchConstraints: {resourceRules: [{apiGroups: [%s], apiVersions: [v1], operations: [CREATE], resources: [%s]}]}, validations: [{expression: 'false'}]}", test.groups, test.resources)
			if err := yaml.UnmarshalStrict([]byte(text), &p.Spec); err != nil {
				t.Fatal(err)
			}
			var limits rule.Limits
			if test.allowed != "" {
				var err error
				if limits.Namespaced.Kinds, err = rule.ParseKinds([]string{test.allowed}); err != nil {
					t.Fatal(err)
				}
			}
			_, problems := object.Namespaced(t.Context(), p, object.Options{Limits: limits})
			var got, want []string
			for _, problem := range problems {
				got = append(got, problem.String())
			}
			for _, row := range test.want {
				i, name := row[:1], row[2:]
				want = append(want, "warning: spec.matchConstraints.resourceRules[0].resources["+i+"]: a policy of a namespace does not act on "+name+": it does nothing for these requests; "+
					"remove the resource, or ask who administers the cluster for a ClusterObjectPolicy, or to allow the kind: --namespaced-kinds")
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

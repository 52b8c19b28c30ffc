package compile_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/rule"
)

// TestPoliciesThatAreDeleted: no policy is in force while finalizers keep it.
func TestPoliciesThatAreDeleted(t *testing.T) {
	t.Parallel()
	const match = "matchConstraints: {resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}"
	for kind, text := range map[string]string{
		"ClusterValidatePolicy":      "apiVersion: policy.kcloudlabs.io/v1alpha1\nspec: {validateRules: [{cue: 'validate: {valid: false}'}]}",
		"ClusterOverridePolicy":      "apiVersion: policy.kcloudlabs.io/v1alpha1\nspec: {overrideRules: [{overriders: {plaintext: [{op: add, path: /data, value: {}}]}}]}",
		"OverridePolicy":             "apiVersion: policy.kcloudlabs.io/v1alpha1\nspec: {overrideRules: [{overriders: {plaintext: [{op: add, path: /data, value: {}}]}}]}",
		"ClusterObjectPolicy":        "apiVersion: usher.dev/v1alpha1\nspec: {" + match + ", validations: [{expression: 'false'}]}",
		"ObjectPolicy":               "apiVersion: usher.dev/v1alpha1\nspec: {" + match + ", validations: [{expression: 'false'}]}",
		"ClusterAuthorizationPolicy": "apiVersion: usher.dev/v1alpha1\nspec: {effect: Deny, message: closed, subjects: [{users: [jane]}], rules: [{verbs: [get], apiGroups: [''], resources: [pods]}]}",
		"AuthorizationPolicy":        "apiVersion: usher.dev/v1alpha1\nspec: {effect: Allow, subjects: [{users: [jane]}], rules: [{verbs: [get], apiGroups: [''], resources: [pods]}]}",
		"ValidatingAdmissionPolicy":  "apiVersion: admissionregistration.k8s.io/v1\nspec: {" + match + ", validations: [{expression: 'false'}]}",
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			text += "\nkind: " + kind + "\nmetadata: {name: p}"
			if !strings.HasPrefix(kind, "Cluster") && !strings.HasPrefix(kind, "Validating") {
				text = strings.Replace(text, "name: p", "name: p, namespace: shop", 1)
			}
			policy := decode(t, "p.yaml", []byte(text))
			if rules(policy) == 0 {
				t.Fatal("the policy has no rules")
			}
			policy.Object.SetDeletionTimestamp(&metav1.Time{Time: time.Now()})
			policy.Object.SetFinalizers([]string{"example.com/keep"})
			if n := rules(policy); n != 0 {
				t.Errorf("%d rules are in force", n)
			}
			if !slices.ContainsFunc(compile.Policy(policy).Problems, func(p rule.Problem) bool {
				return p.Severity == rule.Warning && strings.Contains(p.What, "out of force")
			}) {
				t.Errorf("problems %v do not say so", compile.Policy(policy).Problems)
			}
		})
	}
}

// rules counts the rules of a policy, with a binding if it needs one.
func rules(policy api.Policy) int {
	compiled := compile.Policy(policy)
	n := len(compile.Access([]compile.Compiled{compiled}))
	if compiled.Admission != nil {
		n++
	}
	for _, r := range compile.Order([]compile.Compiled{compiled}) {
		if r.Policy != (usher.PolicyRef{}) {
			n++
		}
	}
	return n
}

package compile_test

import (
	"testing"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/compile"
)

func TestDescription(t *testing.T) {
	t.Parallel()
	const (
		annotated = "metadata: {name: p, annotations: {policies.kyverno.io/category: Samples, policies.kyverno.io/severity: low}}\n"
		match     = "matchConstraints: {resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}, validations: [{expression: 'false', message: never}]"
		object    = "apiVersion: usher.dev/v1alpha1\nkind: ClusterObjectPolicy\n"
		admission = "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicy\n"
	)
	for _, test := range []struct {
		reason, policy, category string
		severity                 usher.Severity
	}{
		{"an object policy says so", object + annotated + "spec: {category: Pods, severity: high, " + match + "}", "Pods", "high"},
		{"its annotations do", object + annotated + "spec: {" + match + "}", "Samples", "low"},
		{"nothing does", object + "metadata: {name: p}\nspec: {" + match + "}", "", "medium"},
		{"a namespaced one", "apiVersion: usher.dev/v1alpha1\nkind: ObjectPolicy\nmetadata: {name: p, namespace: a}\nspec: {category: Pods, " + match + "}", "Pods", "medium"},
		{"annotations of an admission policy", admission + annotated + "spec: {" + match + "}", "Samples", "low"},
		{"an admission policy without", admission + "metadata: {name: p}\nspec: {" + match + "}", "", ""},
		{"no severity that there is", admission + "metadata: {name: p, annotations: {policies.kyverno.io/severity: terrible}}\nspec: {" + match + "}", "", ""},
	} {
		c := compile.Policy(decode(t, "p.yaml", []byte(test.policy)))
		if c.Category() != test.category || c.Severity() != test.severity {
			t.Errorf("%s: %q, %q", test.reason, c.Category(), c.Severity())
		}
	}
	var none compile.Compiled
	if none.Category() != "" || none.Severity() != "" {
		t.Error("what is no policy has a category or a severity")
	}
}

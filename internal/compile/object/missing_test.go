package object_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/usher-dev/usher/api/usher/v1alpha1"
	"github.com/usher-dev/usher/internal/compile/object"
)

// TestMissingExpressions: each is one problem, at the field that is to be written, in words about that.
func TestMissingExpressions(t *testing.T) {
	t.Parallel()
	p := &v1alpha1.ClusterObjectPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p"}}
	p.Spec.MatchConstraints.ResourceRules = []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
		Operations: []admissionv1.OperationType{"CREATE"}, Rule: admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"services"}},
	}}}
	p.Spec.MatchConditions = []admissionv1.MatchCondition{{Name: "a"}}
	p.Spec.Variables = []admissionv1.Variable{{Name: "b", Expression: " \n"}}
	p.Spec.Validations = []v1alpha1.Validation{{}}
	p.Spec.AuditAnnotations = []admissionv1.AuditAnnotation{{Key: "c"}}
	p.Spec.Mutations = []v1alpha1.Mutation{
		{PatchType: v1alpha1.PatchTypeJSONPatch, ApplyConfiguration: &admissionv1.ApplyConfiguration{Expression: "Object{}"}},
		{PatchType: v1alpha1.PatchTypeApplyConfiguration, JSONPatch: &admissionv1.JSONPatch{Expression: "[]"}},
		{PatchType: v1alpha1.PatchTypeJSONPatch},
		{PatchType: v1alpha1.PatchTypeJSONPatch, JSONPatch: &admissionv1.JSONPatch{}},
	}
	_, problems := object.Cluster(t.Context(), p, object.Options{})
	got := make([]string, len(problems))
	for i, problem := range problems {
		got[i] = strings.Join([]string{problem.Field, problem.What, problem.Do}, "; ")
	}
	const missing = "the expression is missing; write one"
	if diff := cmp.Diff([]string{
		"spec.auditAnnotations[0].valueExpression; " + missing,
		"spec.matchConditions[0].expression; " + missing,
		"spec.mutations[0]; a mutation with the patchType JSONPatch has applyConfiguration; set jsonPatch.expression, and nothing else",
		"spec.mutations[1]; a mutation with the patchType ApplyConfiguration has jsonPatch; set applyConfiguration.expression, and nothing else",
		"spec.mutations[2]; a mutation with the patchType JSONPatch has no expression; set jsonPatch.expression, and nothing else",
		"spec.mutations[3].jsonPatch.expression; " + missing,
		"spec.validations[0].expression; " + missing,
		"spec.variables[0].expression; " + missing,
	}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

package e2e

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestSpecsStayAsWritten: two managers, such as a GitOps tool and a person, apply a policy with a
// template. Its spec is what they have written, the one who applied it owns all of it, and applying
// it again changes nothing.
func TestSpecsStayAsWritten(t *testing.T) {
	t.Parallel()
	r := sharedRig(t)
	namespace := r.Namespace(t)
	policy := parse(t, `
apiVersion: policy.kcloudlabs.io/v1alpha1
kind: ClusterValidatePolicy
metadata: {name: %[1]q}
spec:
  resourceSelectors: [{apiVersion: v1, kind: ConfigMap, namespace: %[1]q}]
  validateRules:
  - targetOperations: [CREATE]
    template:
      type: condition
      condition: {cond: NotExist, message: no team, dataRef: {from: current, path: /metadata/labels/team}}
`, namespace)
	resource, err := r.of(policy)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.remove(policy) })
	apply := func(manager string) *unstructured.Unstructured {
		applied, err := resource.Apply(testContext(t), namespace, policy, metav1.ApplyOptions{FieldManager: manager})
		if err != nil {
			t.Fatalf("apply as %s: %v", manager, err)
		}
		if d := cmp.Diff(policy.Object["spec"], applied.Object["spec"]); d != "" {
			t.Errorf("applied as %s, the spec has drifted (-written +stored):\n%s", manager, d)
		}
		return applied
	}
	first := apply("argocd-controller")
	r.awaitCondition(t, policy, "Enforced", "True")
	apply("jane")
	last := apply("argocd-controller")
	if first.GetGeneration() != last.GetGeneration() {
		t.Errorf("generation %d, then %d: what nobody has changed was written", first.GetGeneration(), last.GetGeneration())
	}
	for _, entry := range last.GetManagedFields() {
		if entry.Subresource == "" && entry.Manager != "argocd-controller" && entry.Manager != "jane" {
			t.Errorf("%s owns fields of the policy", entry.Manager)
		}
	}
}

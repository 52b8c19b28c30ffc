package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// TestEditIsInForceSoon changes a policy several times. All edits act, and the fastest within five
// seconds: a busy machine delays some, and waiting for the next round of anything, ten seconds, would delay
// most.
func TestEditIsInForceSoon(t *testing.T) {
	t.Parallel()
	r := sharedRig(t)
	namespace := r.Namespace(t)
	var took []time.Duration
	for i := range 7 {
		value := fmt.Sprintf("edit-%d", i)
		applied, err := r.apply(testContext(t), labelling(t, namespace, namespace, value))
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			t.Cleanup(func() { r.remove(applied) })
		}
		took = append(took, eventually(t, "the edit", func() error {
			created, err := r.try(testContext(t), configMap(t, namespace, "tried"))
			if err != nil {
				return err
			}
			return stamped(created, value)
		}))
	}
	t.Logf("from the write of a policy to its enforcement: %v", took)
	if fastest := slices.Min(took); fastest > 5*time.Second {
		t.Errorf("the fastest edit took %s", fastest)
	}
}

func TestDeletedPolicyStopsActing(t *testing.T) {
	t.Parallel()
	r := sharedRig(t)
	namespace := r.Namespace(t)
	policy := r.enforce(t, labelling(t, namespace, namespace, "stays"))
	eventually(t, "the policy to act", func() error {
		created, err := r.try(testContext(t), configMap(t, namespace, "tried"))
		if err != nil {
			return err
		}
		return stamped(created, "stays")
	})
	r.remove(policy)
	took := eventually(t, "the policy to stop", func() error {
		created, err := r.try(testContext(t), configMap(t, namespace, "tried"))
		if err != nil {
			return err
		}
		return stamped(created, "")
	})
	t.Logf("from the deletion of a policy to its end: %v", took)
}

// TestStatusSaysWhatIsEnforced is what kubectl wait and kubectl get rely on.
func TestStatusSaysWhatIsEnforced(t *testing.T) {
	t.Parallel()
	r := sharedRig(t)
	namespace := r.Namespace(t)
	policies := []*unstructured.Unstructured{
		labelling(t, namespace, namespace, "status"),
		parse(t, `
apiVersion: policy.kcloudlabs.io/v1alpha1
kind: OverridePolicy
metadata: {name: status, namespace: %q}
spec:
  resourceSelectors: [{apiVersion: v1, kind: Service}]
  overrideRules:
  - overriders: {plaintext: [{path: /metadata/labels, op: add, value: {a: b}}]}
`, namespace),
		parse(t, `
apiVersion: policy.kcloudlabs.io/v1alpha1
kind: ClusterValidatePolicy
metadata: {name: %[1]q}
spec:
  resourceSelectors: [{apiVersion: v1, kind: Secret, namespace: %[1]q}]
  validateRules:
  - targetOperations: [DELETE]
    template: {type: condition, condition: {cond: Exist, dataRef: {from: current, path: /metadata/labels/keep}, message: kept}}
`, namespace),
	}
	for _, policy := range policies {
		applied := r.enforce(t, policy)
		current := r.awaitCondition(t, applied, "Compiled", "True")
		problems, _, _ := unstructured.NestedSlice(current.Object, "status", "problems")
		for _, problem := range problems {
			// Patches that add a label fail on objects that have none.
			if severity, _, _ := unstructured.NestedString(problem.(map[string]any), "severity"); severity != "warning" {
				t.Errorf("%s: problem %v", policy.GetKind(), problem)
			}
		}
	}
}

// TestEnforcedMeansEnforced is about a kind that no policy was for before: API servers have
// to be told to ask about it. They hear of that a moment later, in which they serve few requests.
func TestEnforcedMeansEnforced(t *testing.T) {
	t.Parallel()
	r := sharedRig(t)
	namespace := r.Namespace(t)
	r.enforce(t, parse(t, `
apiVersion: policy.kcloudlabs.io/v1alpha1
kind: ClusterOverridePolicy
metadata: {name: %[1]q}
spec:
  resourceSelectors: [{apiVersion: v1, kind: LimitRange, namespace: %[1]q}]
  overrideRules:
  - targetOperations: [CREATE]
    overriders: {plaintext: [{path: /metadata/labels/stamp, op: add, value: limited}]}
`, namespace))
	limits := parse(t, `{apiVersion: v1, kind: LimitRange, metadata: {name: limits, namespace: %q, labels: {app: cart}}, spec: {limits: []}}`, namespace)
	tries := 0
	took := eventually(t, "the policy to act", func() error {
		tries++
		created, err := r.try(testContext(t), limits)
		if err != nil {
			return err
		}
		return stamped(created, "limited")
	})
	t.Logf("the policy acts %v after its status says so, on request %d", took, tries)
	if tries > 40 {
		t.Errorf("%d requests were served without the policy after its status said that it is enforced", tries-1)
	}
}

// TestStatusIsNotRewritten leaves an enforced policy alone: writing its status again and
// again would load the API server for nothing. A busy machine may change what it says once: that API servers
// call Usher.
func TestStatusIsNotRewritten(t *testing.T) {
	t.Parallel()
	r := sharedRig(t)
	namespace := r.Namespace(t)
	policy := r.enforce(t, labelling(t, namespace, namespace, "calm"))
	resource, err := r.of(policy)
	if err != nil {
		t.Fatal(err)
	}
	current := func() *unstructured.Unstructured {
		stored, err := resource.Get(testContext(t), policy.GetName(), metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return stored
	}
	var wrote []string
	for attempt := range 3 {
		before := current()
		// Changes of other policies are when a careless reporter would write.
		for i := range 3 {
			r.enforce(t, labelling(t, fmt.Sprintf("%s-other-%d-%d", namespace, attempt, i), namespace+"-none", "other"))
		}
		after := current()
		if before.GetResourceVersion() == after.GetResourceVersion() {
			return
		}
		wrote = append(wrote, fmt.Sprintf("it was %v and is %v", before.Object["status"], after.Object["status"]))
	}
	t.Errorf("the status of the policy was written each time: %s", strings.Join(wrote, "\n"))
}

// TestBrokenPolicyIsRefused names every problem, and nothing else changes.
func TestBrokenPolicyIsRefused(t *testing.T) {
	t.Parallel()
	r := sharedRig(t)
	namespace := r.Namespace(t)
	good := r.enforce(t, labelling(t, namespace, namespace, "good"))
	broken := parse(t, `
apiVersion: policy.kcloudlabs.io/v1alpha1
kind: ClusterValidatePolicy
metadata: {name: %[1]q}
spec:
  resourceSelectors: [{apiVersion: v1, kind: ConfigMap, namespace: %[1]q}]
  validateRules:
  - targetOperations: [CREATE]
    cue: |
      object: _ @tag(object)
      validate: {valid: object.nothing.
  - targetOperations: [UPDATE]
    cue: "validate: {valid: undefinedName}"
`, namespace)
	_, err := r.apply(testContext(t), broken)
	message, ok := denial(err)
	if !ok {
		t.Fatalf("apply broken policy: got %v, want a denial", err)
	}
	for _, field := range []string{"validateRules[0]", "validateRules[1]"} {
		if !strings.Contains(err.Error()+message, field) {
			t.Errorf("the denial does not name %s: %v", field, err)
		}
	}
	// So is an edit that breaks a policy that was good.
	resource, err := r.of(good)
	if err != nil {
		t.Fatal(err)
	}
	edit := []byte(`{"spec":{"overrideRules":[{"overriders":{"cue":"patches: ["}}]}}`)
	if _, err := resource.Patch(testContext(t), good.GetName(), types.MergePatchType, edit, metav1.PatchOptions{}); !refused(err) {
		t.Errorf("break policy: got %v, want a denial", err)
	}
	eventually(t, "the good policy", func() error {
		created, err := r.try(testContext(t), configMap(t, namespace, "tried"))
		if err != nil {
			return err
		}
		return stamped(created, "good")
	})
}

func refused(err error) bool {
	_, ok := denial(err)
	return ok
}

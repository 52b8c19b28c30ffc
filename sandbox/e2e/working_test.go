package e2e

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestARuleThatFailsIsTold: the status of the policy, an event, kubectl and the metrics say that
// a rule fails in service, and none of them repeats what is in the object.
func TestARuleThatFailsIsTold(t *testing.T) {
	t.Parallel()
	r := sharedRig(t)
	namespace := r.Namespace(t)
	policy := r.enforce(t, needsTeam(t, namespace, `object.data.team == "a"`))
	config := configMap(t, namespace, "tried")
	config.Object["data"] = map[string]any{"password": canary}
	if _, err := r.try(testContext(t), config); wantDenied(err, "(ClusterValidatePolicy "+policy.GetName()+" spec.validateRules[0])") != nil {
		t.Fatalf("the rule does not fail: %v", err)
	}
	current := r.awaitCondition(t, policy, "Working", "False")
	reason, message := condition(current, "Working")
	for _, part := range []string{"spec.validateRules[0] failed 1 time since 20", "last for CREATE ConfigMap " + namespace + "/tried: "} {
		if reason != "RuleFails" || !strings.Contains(message, part) {
			t.Errorf("Working is False with %s: %s; want RuleFails and %q", reason, message, part)
		}
	}
	if problem, _, _ := unstructured.NestedString(current.Object, "status", "lastError"); problem != message {
		t.Errorf("lastError is %q, want the message of the condition", problem)
	}
	eventually(t, "the event", func() error {
		events, err := r.kube.CoreV1().Events("default").List(testContext(t), metav1.ListOptions{FieldSelector: "involvedObject.uid=" + string(policy.GetUID())})
		if err != nil || len(events.Items) != 1 || events.Items[0].Reason != "RuleFails" || events.Items[0].Message != message {
			return fmt.Errorf("events are %v (%w)", events, orNil(err))
		}
		return nil
	})
	if got := metric(t, r.process, "usher_failing_policies"); got < 1 {
		t.Errorf("usher_failing_policies is %v", got)
	}
	for _, args := range [][]string{{"get", "clustervalidatepolicy", policy.GetName(), "-o", "wide"}, {"describe", "clustervalidatepolicy", policy.GetName()}} {
		out, err := exec.CommandContext(testContext(t), "kubectl", append(args, "--kubeconfig", r.Kubeconfig)...).CombinedOutput()
		if !errors.Is(err, exec.ErrNotFound) && (err != nil || !strings.Contains(string(out), "spec.validateRules[0] failed") || strings.Contains(string(out), canary)) {
			t.Errorf("kubectl %s: %v, want the failure without values:\n%s", strings.Join(args, " "), err, out)
		}
	}
	if _, err := r.apply(testContext(t), needsTeam(t, namespace, `object.kind == "ConfigMap"`)); err != nil {
		t.Fatal(err)
	}
	edited := r.awaitCondition(t, policy, "Working", "Unknown")
	if reason, _ := condition(edited, "Working"); reason != "Edited" {
		t.Errorf("Working is Unknown with %s after an edit, want Edited", reason)
	}
	if problem, _, _ := unstructured.NestedString(edited.Object, "status", "lastError"); problem != "" {
		t.Errorf("lastError is %q after an edit", problem)
	}
}

// canary is what nobody may be told.
const canary = "hunter2-canary"

// needsTeam is a policy on the ConfigMaps of a namespace.
func needsTeam(t *testing.T, namespace, valid string) *unstructured.Unstructured {
	t.Helper()
	return parse(t, `
apiVersion: policy.kcloudlabs.io/v1alpha1
kind: ClusterValidatePolicy
metadata: {name: %[1]q}
spec:
  resourceSelectors: [{apiVersion: v1, kind: ConfigMap, namespace: %[1]q}]
  validateRules:
  - cue: |
      object: _ @tag(object)
      validate: {valid: %[2]s, reason: "no team"}
`, namespace, valid)
}

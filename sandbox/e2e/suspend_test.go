package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// TestSuspend turns a policy of Usher and one of kinitiras off and on again, as docs/install.md says.
func TestSuspend(t *testing.T) {
	t.Parallel()
	r := sharedRig(t)
	namespace := r.Namespace(t)
	refusing := parse(t, `
apiVersion: usher.dev/v1alpha1
kind: ClusterObjectPolicy
metadata: {name: %q}
spec:
  matchConstraints:
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %q}}
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]
  validations: [{expression: "false", message: closed for a while}]
`, namespace, namespace)
	for _, test := range []struct {
		policy  *unstructured.Unstructured
		off, on string
		columns []string
	}{
		{refusing, `{"spec": {"suspend": true}}`, `{"spec": {"suspend": false}}`, []string{"cobp", "Deny", "configmaps"}},
		{
			needsTeam(t, namespace, `object.kind == "Secret"`), `{"metadata": {"annotations": {"usher.dev/suspend": "true"}}}`,
			`{"metadata": {"annotations": {"usher.dev/suspend": null}}}`, []string{"cvp", "Deny", "ConfigMap"},
		},
	} {
		policy := r.enforce(t, test.policy)
		patch := func(text string) *unstructured.Unstructured {
			resource, err := r.of(policy)
			if err != nil {
				t.Fatal(err)
			}
			patched, err := resource.Patch(testContext(t), policy.GetName(), types.MergePatchType, []byte(text), metav1.PatchOptions{})
			if err != nil {
				t.Fatal(err)
			}
			return patched
		}
		refused := func() error {
			_, err := r.try(testContext(t), configMap(t, namespace, "tried"))
			return err
		}
		// API servers hear of what Usher is asked about a moment later.
		refuses := func() error {
			if refused() == nil {
				return errAllowed
			}
			return nil
		}
		eventually(t, policy.GetKind()+" to refuse", refuses)
		current := r.awaitCondition(t, patch(test.off), "Enforced", "False")
		reason, message := condition(current, "Enforced")
		if reason != "Suspended" || !strings.Contains(message, "the policy is suspended by ") || !strings.Contains(message, " at 20") {
			t.Errorf("%s: Enforced is False with %s: %s", policy.GetKind(), reason, message)
		}
		if err := refused(); err != nil {
			t.Errorf("%s: suspended, it refuses: %v", policy.GetKind(), err)
		}
		r.awaitEvent(t, policy, "Suspended")
		if got := metric(t, r.process, fmt.Sprintf("usher_snapshot_suspended_policies{kind=%q}", policy.GetKind())); got < 1 {
			t.Errorf("%s: the metric of suspended policies is %v", policy.GetKind(), got)
		}
		r.showsColumns(t, append(test.columns, policy.GetName(), "true", "False"))
		r.awaitCondition(t, patch(test.on), "Enforced", "True")
		eventually(t, policy.GetKind()+", put into force again, to refuse", refuses)
		r.awaitEvent(t, policy, "Resumed")
		r.remove(policy)
	}
	r.logsWhy(t, namespace, "spec.validations[0]", "closed for a while")
}

// logsWhy looks for the line of the log that says why a request was denied.
func (r *rig) logsWhy(t *testing.T, namespace string, words ...string) {
	t.Helper()
	log, err := os.ReadFile(r.process.Log)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(log)) {
		_, refused, found := strings.Cut(line, "refused")
		for _, word := range words {
			found = found && strings.Contains(refused, word)
		}
		if found && strings.Contains(line, namespace) {
			return
		}
	}
	t.Errorf("no line of the log says %q of a request in %s", words, namespace)
}

// awaitEvent waits until the Event about a policy has a reason.
func (r *rig) awaitEvent(t *testing.T, policy *unstructured.Unstructured, reason string) {
	t.Helper()
	eventually(t, "the event "+reason, func() error {
		events, err := r.kube.CoreV1().Events("default").List(testContext(t), metav1.ListOptions{FieldSelector: "involvedObject.uid=" + string(policy.GetUID())})
		if err != nil || len(events.Items) != 1 || events.Items[0].Reason != reason {
			return fmt.Errorf("events are %v (%w)", events, orNil(err))
		}
		return nil
	})
}

// showsColumns looks for a policy with kubectl, by its short name and among all policies.
func (r *rig) showsColumns(t *testing.T, words []string) {
	t.Helper()
	for _, name := range []string{words[0], "usher"} {
		out, err := exec.CommandContext(testContext(t), "kubectl", "get", name, "-A", "--kubeconfig", r.Kubeconfig).CombinedOutput()
		if errors.Is(err, exec.ErrNotFound) {
			return
		}
		found := false
		for line := range strings.Lines(string(out)) {
			shown := true
			for _, word := range words[1:] {
				shown = shown && strings.Contains(line, word)
			}
			found = found || shown
		}
		if err != nil || !found {
			t.Errorf("kubectl get %s: %v, want a line with %q:\n%s", name, err, words[1:], out)
		}
	}
}

package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/usher-dev/usher/sandbox"
)

// slip is a policy as a new user writes it.
func slip(t *testing.T, kind, name, spec string) *unstructured.Unstructured {
	t.Helper()
	return documents(t, fmt.Appendf(nil, "apiVersion: policy.kcloudlabs.io/v1alpha1\nkind: %s\nmetadata: {name: %s}\nspec: %s\n", kind, name, spec))[0]
}

// TestSlipsAreTold: who writes a policy that does not do what it says reads an error or a warning, and
// finds it in the status; a policy that refuses everything can be corrected.
func TestSlipsAreTold(t *testing.T) {
	t.Parallel()
	r := newRig(t, sandbox.Options{Exclusive: true})
	r.serve(t)
	config, h := r.listening()
	client := dynamic.NewForConfigOrDie(config)
	for _, test := range []struct {
		reason, kind, spec string
		// refused and warning are part of what is read; enforced is the condition.
		refused, warning string
		enforced, why    string
	}{
		{
			"nobody reads vaild", "ClusterValidatePolicy",
			`{resourceSelectors: [{apiVersion: v1, kind: Pod}], validateRules: [{cue: "object: _\nvalidate: {vaild: false}"}]}`,
			"did you mean valid", "", "", "",
		},
		{
			"a path that no Pod has", "ClusterOverridePolicy",
			`{resourceSelectors: [{apiVersion: v1, kind: Pod}], overrideRules: [{targetOperations: [CREATE], overriders: {plaintext: [{op: add, path: /spec/hostNetwrk, value: true}]}}]}`,
			"", "no Pod has spec.hostNetwrk (did you mean spec.hostNetwork?)", "True", "",
		},
		{
			"a kind that does not exist", "ClusterOverridePolicy",
			`{resourceSelectors: [{apiVersion: v1, kind: Pods}], overrideRules: [{overriders: {template: {type: labels, operation: add, path: a, value: {string: b}}}}]}`,
			"", "the cluster has no kind Pods in v1: the selector selects nothing (did you mean kind: Pod?)", "False", "NoSuchKind",
		},
		{
			"a kind of a CustomResourceDefinition", "ClusterValidatePolicy",
			`{resourceSelectors: [{apiVersion: policy.kcloudlabs.io/v1alpha1, kind: OverridePolicy}], validateRules: [{targetOperations: [CREATE], template: {type: condition, condition: {cond: Exist, dataRef: {from: current, path: /spec/overideRules}, message: stop}}}]}`,
			"", "no OverridePolicy has spec.overideRules (did you mean spec.overrideRules?)", "", "",
		},
	} {
		t.Run(test.reason, func(t *testing.T) {
			policy := slip(t, test.kind, strings.ReplaceAll(strings.ToLower(test.reason), " ", "-"), test.spec)
			resource := client.Resource(schema.GroupVersionResource{Group: "policy.kcloudlabs.io", Version: "v1alpha1", Resource: map[string]string{
				"ClusterValidatePolicy": "clustervalidatepolicies", "ClusterOverridePolicy": "clusteroverridepolicies",
			}[test.kind]})
			created, err := resource.Create(testContext(t), policy, metav1.CreateOptions{})
			warnings := strings.Join(h.take(), "\n")
			if test.refused != "" {
				if err == nil || !strings.Contains(err.Error(), test.refused) {
					t.Errorf("error %v, want one that says %q", err, test.refused)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { r.remove(created) })
			if !strings.Contains(warnings, test.warning) {
				t.Errorf("warnings %q, want one that says %q", warnings, test.warning)
			}
			if test.enforced == "" {
				return
			}
			await := "the status has the warning, and Enforced is " + test.enforced
			eventually(t, await, func() error {
				now, err := resource.Get(testContext(t), created.GetName(), metav1.GetOptions{})
				if err != nil {
					return err
				}
				status := fmt.Sprint(now.Object["status"])
				what, _, _ := strings.Cut(test.warning, " (did")
				if !strings.Contains(status, what) || !strings.Contains(status, test.why) || !conditionIs(now, "Enforced", test.enforced) {
					return errors.New(status)
				}
				return nil
			})
		})
	}
	t.Run("a policy that refuses everything is corrected", func(t *testing.T) {
		closed := r.enforce(t, slip(t, "ClusterValidatePolicy", "closed", `{validateRules: [{cue: "validate: {valid: false, reason: \"closed\"}"}]}`))
		fixed := closed.DeepCopy()
		if err := unstructured.SetNestedSlice(fixed.Object, []any{map[string]any{"apiVersion": "v1", "kind": "Secret", "name": "none"}}, "spec", "resourceSelectors"); err != nil {
			t.Fatal(err)
		}
		fixed.SetManagedFields(nil)
		fixed.SetResourceVersion("")
		if _, err := r.apply(testContext(t), fixed); err != nil {
			t.Errorf("correct the policy: %v", err)
		}
	})
}

// TestResourcesThatDoNotExist: a policy for a resource that the cluster does not have is not in force, until the
// cluster has it.
func TestResourcesThatDoNotExist(t *testing.T) {
	t.Parallel()
	r := sharedRig(t)
	config, h := r.listening()
	client := dynamic.NewForConfigOrDie(config).Resource(schema.GroupVersionResource{Group: "usher.dev", Version: "v1alpha1", Resource: "clusterobjectpolicies"})
	for _, row := range []struct {
		reason, group, resource string
		warning, status, why    string
	}{
		{"a kind in place of a resource", `""`, "Pod", "the cluster has no resource Pod in v1: nothing is matched by it (did you mean pods?)", "", ""},
		{"a kind that is to come", "later.example.com", "widgets", "the cluster has no resource widgets in later.example.com/v1", "False", "NoSuchKind"},
		{"a resource", `""`, "pods", "", "True", "Enforced"},
	} {
		policy := documents(t, fmt.Appendf(nil, `
apiVersion: usher.dev/v1alpha1
kind: ClusterObjectPolicy
metadata: {name: for-%s}
spec:
  matchConstraints:
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: nowhere}}
    resourceRules: [{apiGroups: [%s], apiVersions: [v1], operations: [CREATE], resources: [%s]}]
  validations: [{expression: "object.metadata.?labels[?'team'].hasValue()", message: the label team is required}]
`, strings.ReplaceAll(row.reason, " ", "-"), row.group, row.resource))[0]
		created, err := client.Create(testContext(t), policy, metav1.CreateOptions{})
		if row.status == "" {
			// It can be nothing else.
			if err := wantDenied(err, row.warning); err != nil {
				t.Errorf("%s: %v", row.reason, err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { r.remove(created) })
		if warnings := strings.Join(h.take(), "\n"); !strings.Contains(warnings, row.warning) {
			t.Errorf("%s: warnings %q, want %q", row.reason, warnings, row.warning)
		}
		eventually(t, row.reason+": Enforced is "+row.status, func() error {
			now, err := client.Get(testContext(t), created.GetName(), metav1.GetOptions{})
			if err != nil {
				return err
			}
			status := fmt.Sprint(now.Object["status"])
			if !conditionIs(now, "Enforced", row.status) || !strings.Contains(status, row.why) {
				return errors.New(status)
			}
			return nil
		})
	}
}

// TestLockoutIsTold: who writes a policy that refuses what a cluster needs to recover is warned, as Usher
// is registered: not of what API servers do not send.
func TestLockoutIsTold(t *testing.T) {
	t.Parallel()
	r := sharedRig(t)
	config, h := r.listening()
	client := dynamic.NewForConfigOrDie(config).Resource(schema.GroupVersionResource{Group: "policy.kcloudlabs.io", Version: "v1alpha1", Resource: "clustervalidatepolicies"})
	for _, row := range []struct {
		reason, kind string
		warned       bool
	}{
		{"evictions reach Usher", "{apiVersion: policy/v1, kind: Eviction}", true},
		{"leases do not", "{apiVersion: coordination.k8s.io/v1, kind: Lease}", false},
	} {
		policy := slip(t, "ClusterValidatePolicy", "locks-out", `{resourceSelectors: [`+row.kind+`], validateRules: [{cue: "validate: {valid: false, reason: \"closed\"}"}]}`)
		if _, err := client.Create(testContext(t), policy, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
			t.Fatal(err)
		}
		if warnings := strings.Join(h.take(), "\n"); strings.Contains(warnings, "without which a cluster cannot recover") != row.warned {
			t.Errorf("%s: warnings %q", row.reason, warnings)
		}
	}
}

func conditionIs(object *unstructured.Unstructured, kind, status string) bool {
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, c := range conditions {
		if condition, ok := c.(map[string]any); ok && condition["type"] == kind && condition["status"] == status {
			return true
		}
	}
	return false
}

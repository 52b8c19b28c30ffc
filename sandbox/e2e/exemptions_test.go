package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

var exemptions = schema.GroupVersionResource{Group: "usher.dev", Version: "v1alpha1", Resource: "clusterpolicyexemptions"}

// exempting exempts one ConfigMap of a namespace from the policy of the same name.
func exempting(t *testing.T, namespace, policy string, ends time.Time) *unstructured.Unstructured {
	t.Helper()
	return parse(t, `
apiVersion: usher.dev/v1alpha1
kind: ClusterPolicyExemption
metadata: {name: %[1]q}
spec:
  policyRefs: [{kind: ClusterValidatePolicy, name: %[2]q}]
  matchConstraints:
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %[1]q}}
    resourceRules:
    - {apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [configmaps], resourceNames: [legacy]}
  reason: the import of the old shop runs until Friday
  owner: team-shop
  expiresAt: %[3]q
`, namespace, policy, ends.UTC().Format(time.RFC3339))
}

// TestExemptForAWeek is the session of an operator: a policy refuses an object, a user who may not
// exempt from it does not get past it, one who may does, and after the end it is refused again.
func TestExemptForAWeek(t *testing.T) {
	t.Parallel()
	r := sharedRig(t)
	ctx := testContext(t)
	namespace := r.Namespace(t)
	r.enforce(t, parse(t, `
apiVersion: policy.kcloudlabs.io/v1alpha1
kind: ClusterValidatePolicy
metadata: {name: %[1]q}
spec:
  resourceSelectors: [{apiVersion: v1, kind: ConfigMap, namespace: %[1]q, labelSelector: {matchLabels: {import: "yes"}}}]
  validateRules:
  - targetOperations: [CREATE]
    cue: 'validate: {valid: false, reason: "no imports here"}'
`, namespace))
	imported := func(name string) *unstructured.Unstructured {
		o := configMap(t, namespace, name)
		o.SetLabels(map[string]string{"import": "yes"})
		return o
	}
	refused := func(name string) error {
		_, err := r.try(ctx, imported(name))
		return wantDenied(err, "no imports here")
	}
	if err := refused("legacy"); err != nil {
		t.Fatal(err)
	}

	week := time.Now().Add(7 * 24 * time.Hour)
	jane := "jane-" + namespace
	const writes = `{verbs: [get, list, create, update, patch], apiGroups: [usher.dev], resources: [clusterpolicyexemptions, clusterpolicyexemptions/status]}`
	r.grant(t, jane, "", "["+writes+"]")
	client := r.as(t, jane).dynamic.Resource(exemptions)
	forbidden := func(reason, want string, err error) {
		t.Helper()
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", reason, err, want)
		}
	}
	eventually(t, "jane's rights", func() error {
		_, err := client.List(ctx, metav1.ListOptions{})
		return err
	})
	_, err := client.Create(ctx, exempting(t, namespace, namespace, week), metav1.CreateOptions{})
	forbidden("without the right", fmt.Sprintf("permission to exempt clustervalidatepolicies.policy.kcloudlabs.io %s, which %s does not have", namespace, jane), err)

	if _, err := r.apply(ctx, parse(t, `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: %s}, rules: [%s,
		{verbs: [exempt], apiGroups: [policy.kcloudlabs.io], resources: [clustervalidatepolicies], resourceNames: [%s]}]}`, jane, writes, namespace)); err != nil {
		t.Fatal(err)
	}
	var written *unstructured.Unstructured
	eventually(t, "jane exempts", func() error {
		written, err = client.Create(ctx, exempting(t, namespace, namespace, week), metav1.CreateOptions{FieldValidation: "Strict"})
		return err
	})
	t.Cleanup(func() { r.remove(written) })
	r.awaitCondition(t, written, "Proven", "True")
	r.awaitCondition(t, written, "Valid", "True")

	_, err = client.Create(ctx, exempting(t, namespace+"-far", namespace, week.Add(365*24*time.Hour)), metav1.CreateOptions{})
	forbidden("for a year", "may end at most 90 days after it is written", err)
	_, err = client.Create(ctx, exempting(t, namespace+"-all", "*", week), metav1.CreateOptions{})
	forbidden("from every policy", "names policies by a pattern, which needs for all of them permission to exempt", err)
	copied := fresh(written)
	copied.SetName(namespace + "-copy")
	if err := unstructured.SetNestedSlice(copied.Object, []any{map[string]any{"kind": "ClusterValidatePolicy", "name": namespace}, map[string]any{"kind": "ClusterValidatePolicy", "name": "other"}}, "spec", "policyRefs"); err != nil {
		t.Fatal(err)
	}
	_, err = client.Create(ctx, copied, metav1.CreateOptions{})
	forbidden("a copied proof, with one more policy", "permission to exempt clustervalidatepolicies.policy.kcloudlabs.io other", err)

	r.create(t, imported("legacy"))
	if err := refused("another"); err != nil {
		t.Errorf("an object that is not exempt: %v", err)
	}
	// She may write the status, which says nothing that counts.
	forged := []byte(`{"status": {"uses": -7, "conditions": [{"type": "Valid", "status": "True", "reason": "Valid", "message": "forever", "lastTransitionTime": "2020-01-01T00:00:00Z"}]}}`)
	if _, err := client.Patch(ctx, namespace, types.MergePatchType, forged, metav1.PatchOptions{}, "status"); err != nil {
		t.Error(err)
	}
	r.ends(t, client, namespace)
	eventually(t, "it is refused again", func() error { return refused("legacy") })
}

// TestExemptAWorkload writes the exemption of a Deployment in the cluster whose pods are refused: the
// pods of all of its ReplicaSets are then admitted, and others are not.
func TestExemptAWorkload(t *testing.T) {
	t.Parallel()
	r := sharedRig(t)
	ctx := testContext(t)
	namespace := r.Namespace(t)
	r.enforce(t, parse(t, `
apiVersion: usher.dev/v1alpha1
kind: ClusterObjectPolicy
metadata: {name: %[1]q}
spec:
  matchConstraints:
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %[1]q}}
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]
  validations: [{name: tag, expression: "object.spec.containers.all(c, !c.image.endsWith(':latest'))", message: no latest}]
`, namespace))
	const template = `{metadata: {labels: {app: web}}, spec: {containers: [{name: main, image: "registry.example/web:latest"}]}}`
	r.create(t, parse(t, `{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: %q}, spec: {selector: {matchLabels: {app: web}}, template: %s}}`, namespace, template))
	pod := func(owner, hash string) *unstructured.Unstructured {
		return parse(t, `
apiVersion: v1
kind: Pod
metadata:
  generateName: %[1]s-%[2]s-
  namespace: %[3]q
  labels: {pod-template-hash: %[2]s}
  ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: %[1]s-%[2]s, uid: 5a1e9b52-0f0e-4d0a-9a39-0a3a5c1b0001, controller: true}]
spec: {containers: [{name: main, image: "registry.example/web:latest"}]}
`, owner, hash, namespace)
	}
	refused := func(owner, hash string) error {
		_, err := r.try(ctx, pod(owner, hash))
		return wantDenied(err, "no latest")
	}
	if err := refused("web", "7b6c9d5f48"); err != nil {
		t.Fatal(err)
	}
	written := ""
	for _, name := range []string{"deployment/web", "deploy/web", "deployments.apps/web"} {
		stdout, stderr, code := run(t, "exempt", "--from-cluster", "--kubeconfig", r.Kubeconfig, name, "-n", namespace, "--reason", "until Friday", "--owner", "shop", "--for", "7d", "--exemption-name", namespace)
		if code != 0 || !strings.Contains(stdout, "# the pods of Deployment "+namespace+"/web are refused: no latest\n") {
			t.Fatalf("%s: exit status %d: %s%s", name, code, stdout, stderr)
		}
		written = stdout
	}
	r.create(t, parse(t, "%s", written))
	for _, hash := range []string{"7b6c9d5f48", "5d4f8c7b9d"} {
		eventually(t, "a pod of a rollout", func() error {
			_, err := r.try(ctx, pod("web", hash))
			return err
		})
	}
	if err := refused("web-api", "7b6c9d5f48"); err != nil {
		t.Errorf("the pod of another Deployment: %v", err)
	}
	if _, stderr, code := run(t, "exempt", "--from-cluster", "--kubeconfig", r.Kubeconfig, "deployment/gone", "-n", namespace, "--reason", "x", "--owner", "x"); code != 2 || !strings.Contains(stderr, `namespace `+namespace+`: deployments.apps "gone" not found`) {
		t.Errorf("exit status %d: %s", code, stderr)
	}
	if _, stderr, code := run(t, "exempt", "--from-cluster", "--kubeconfig", r.Kubeconfig, "deploymnet/web", "-n", namespace, "--reason", "x", "--owner", "x"); code != 2 || !strings.Contains(stderr, "did you mean deployments?") {
		t.Errorf("exit status %d: %s", code, stderr)
	}
}

// ends lets an exemption end, and waits until the status says so.
func (r *rig) ends(t *testing.T, client dynamic.ResourceInterface, name string) {
	t.Helper()
	ctx := testContext(t)
	soon := fmt.Appendf(nil, `{"spec": {"expiresAt": %q}}`, time.Now().Add(time.Second).UTC().Format(time.RFC3339))
	if _, err := client.Patch(ctx, name, types.MergePatchType, soon, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the status has the end and the use", func() error {
		current, err := client.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		uses, _, _ := unstructured.NestedInt64(current.Object, "status", "uses")
		last, _, _ := unstructured.NestedString(current.Object, "status", "lastUsed")
		if valid := conditionOf(current, "Valid"); !strings.HasPrefix(valid, "False Expired: it expired at ") || uses != 1 || last == "" {
			return fmt.Errorf("%w: %s, %d uses, the last %q", errNotYet, valid, uses, last)
		}
		return nil
	})
}

var errNotYet = errors.New("not yet")

package e2e

import (
	"testing"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// TestEveryWayToWriteIsChanged writes an object in each way that the API has.
func TestEveryWayToWriteIsChanged(t *testing.T) {
	t.Parallel()
	r := sharedRig(t)
	namespace := r.Namespace(t)
	unlabelled := r.create(t, configMap(t, namespace, "before"))
	r.enforce(t, labelling(t, namespace, namespace, "by-usher"))
	ctx := testContext(t)
	maps, err := r.of(unlabelled)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "create", func() error {
		created, err := r.try(ctx, configMap(t, namespace, "tried"))
		if err != nil {
			return err
		}
		return stamped(created, "by-usher")
	})
	writes := []struct {
		name  string
		write func() (*unstructured.Unstructured, error)
	}{
		{"create", func() (*unstructured.Unstructured, error) {
			return maps.Create(ctx, configMap(t, namespace, "created"), metav1.CreateOptions{})
		}},
		{"create with a generated name", func() (*unstructured.Unstructured, error) {
			object := configMap(t, namespace, "")
			object.SetGenerateName("some-")
			return maps.Create(ctx, object, metav1.CreateOptions{})
		}},
		{"update", func() (*unstructured.Unstructured, error) {
			object := unlabelled.DeepCopy()
			object.SetAnnotations(map[string]string{"changed": "true"})
			return maps.Update(ctx, object, metav1.UpdateOptions{DryRun: dryRun})
		}},
		{"merge patch", func() (*unstructured.Unstructured, error) {
			patch := []byte(`{"data":{"key":"patched"}}`)
			return maps.Patch(ctx, "before", types.MergePatchType, patch, metav1.PatchOptions{DryRun: dryRun})
		}},
		{"json patch", func() (*unstructured.Unstructured, error) {
			patch := []byte(`[{"op":"replace","path":"/data/key","value":"patched"}]`)
			return maps.Patch(ctx, "before", types.JSONPatchType, patch, metav1.PatchOptions{DryRun: dryRun})
		}},
		{"strategic merge patch", func() (*unstructured.Unstructured, error) {
			patch := []byte(`{"data":{"key":"patched"}}`)
			return maps.Patch(ctx, "before", types.StrategicMergePatchType, patch, metav1.PatchOptions{DryRun: dryRun})
		}},
		{"server-side apply of a new object", func() (*unstructured.Unstructured, error) {
			return r.apply(ctx, configMap(t, namespace, "applied"))
		}},
		{"server-side apply again", func() (*unstructured.Unstructured, error) {
			object := configMap(t, namespace, "applied")
			object.Object["data"] = map[string]any{"key": "applied"}
			return r.apply(ctx, object)
		}},
	}
	for _, w := range writes {
		written, err := w.write()
		if err != nil {
			t.Errorf("%s: %v", w.name, err)
			continue
		}
		if err := stamped(written, "by-usher"); err != nil {
			t.Errorf("%s: %v", w.name, err)
		}
	}
}

// TestEveryWayToRemoveIsRefused removes protected pods in each way that the API has.
func TestEveryWayToRemoveIsRefused(t *testing.T) {
	t.Parallel()
	r := sharedRig(t)
	namespace := r.Namespace(t)
	protected := r.create(t, pod(t, namespace, "protected"))
	r.enforce(t, parse(t, `
apiVersion: policy.kcloudlabs.io/v1alpha1
kind: ClusterValidatePolicy
metadata: {name: %[1]q}
spec:
  resourceSelectors:
  - {apiVersion: v1, kind: Pod, namespace: %[1]q}
  - {apiVersion: policy/v1, kind: Eviction, namespace: %[1]q}
  - {apiVersion: v1, kind: PodExecOptions, namespace: %[1]q}
  validateRules:
  - targetOperations: [DELETE, CONNECT]
    cue: |
      object: _ @tag(object)
      validate: {valid: false, reason: "pods here stay alone"}
  - targetOperations: [CREATE]
    cue: |
      object: _ @tag(object)
      validate: {valid: object.kind != "Eviction", reason: "pods here are not evicted"}
`, namespace))
	ctx := testContext(t)
	pods, err := r.of(protected)
	if err != nil {
		t.Fatal(err)
	}
	removals := []struct {
		name, message string
		remove        func() error
	}{
		{"delete", "pods here stay alone", func() error {
			return pods.Delete(ctx, "protected", metav1.DeleteOptions{DryRun: dryRun})
		}},
		{"deletecollection", "pods here stay alone", func() error {
			return pods.DeleteCollection(ctx, metav1.DeleteOptions{DryRun: dryRun}, metav1.ListOptions{})
		}},
		{"eviction", "pods here are not evicted", func() error {
			return r.kube.PolicyV1().Evictions(namespace).Evict(ctx, &policyv1.Eviction{
				ObjectMeta:    metav1.ObjectMeta{Name: "protected", Namespace: namespace},
				DeleteOptions: &metav1.DeleteOptions{DryRun: dryRun},
			})
		}},
		{"exec", "pods here stay alone", func() error { return r.exec(ctx, namespace, "protected") }},
	}
	for _, removal := range removals {
		eventually(t, removal.name, func() error { return wantDenied(removal.remove(), removal.message) })
	}
	if _, err := pods.Get(ctx, "protected", metav1.GetOptions{}); err != nil {
		t.Errorf("the pod did not stay: %v", err)
	}
	elsewhere := r.create(t, pod(t, r.Namespace(t), "free"))
	if resource, err := r.of(elsewhere); err != nil {
		t.Error(err)
	} else if err := resource.Delete(ctx, "free", metav1.DeleteOptions{DryRun: dryRun}); err != nil {
		t.Errorf("delete in a namespace without policy: %v", err)
	}
}

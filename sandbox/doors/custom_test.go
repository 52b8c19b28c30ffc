package doors

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var (
	gates = schema.GroupVersionResource{Group: "doors.example.com", Version: "v1", Resource: "gates"}
	crds  = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
)

// install makes the API server serve gates, in two versions; policies name v1.
func install(t *testing.T, r *rig) {
	t.Helper()
	version := func(name string, storage bool) any {
		return map[string]any{
			"name": name, "served": true, "storage": storage,
			"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
		}
	}
	crd := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": "gates.doors.example.com"},
		"spec": map[string]any{
			"group": gates.Group, "scope": "Namespaced",
			"names":    map[string]any{"plural": "gates", "singular": "gate", "kind": "Gate", "listKind": "GateList"},
			"versions": []any{version("v1", true), version("v2", false)},
		},
	}}
	if _, err := r.dynamic.Resource(crds).Apply(testContext(t), crd.GetName(), crd, byTest); err != nil {
		t.Fatal(err)
	}
	eventually(t, "gates are served", func() bool {
		_, err := r.dynamic.Resource(gates).List(testContext(t), metav1.ListOptions{})
		return err == nil
	})
}

func gate(apiVersion, name string, data map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": apiVersion, "kind": "Gate", "metadata": map[string]any{"name": name}, "data": data, "size": int64(9007199254740993),
	}}
}

// TestCustomResources writes objects of which nobody has a Go type.
func TestCustomResources(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		install(t, r)
		ctx, namespace := testContext(t), r.Namespace(t)
		all := r.dynamic.Resource(gates).Namespace(namespace)
		created := must[*unstructured.Unstructured](t)(all.Create(ctx, gate("doors.example.com/v1", "north", nil), metav1.CreateOptions{}))
		if size, _, _ := unstructured.NestedInt64(created.Object, "size"); created.GetLabels()["team"] != "platform" || size != 9007199254740993 {
			t.Errorf("created %v", created.Object)
		}
		bad := map[string]any{"password": "x"}
		_, err := all.Create(ctx, gate("doors.example.com/v1", "bad", bad), metav1.CreateOptions{})
		wantDenied(t, "create", err, "no passwords in a Gate")
		_, err = all.Patch(ctx, "north", types.MergePatchType, []byte(`{"data":{"password":"x"}}`), metav1.PatchOptions{})
		wantDenied(t, "patch", err, "no passwords in a Gate")
		_, err = all.Patch(ctx, "north", types.JSONPatchType, []byte(`[{"op":"add","path":"/data","value":{"password":"x"}}]`), metav1.PatchOptions{})
		wantDenied(t, "JSON patch", err, "no passwords in a Gate")
		applied := must[*unstructured.Unstructured](t)(all.Apply(ctx, "south", gate("doors.example.com/v1", "south", nil), byTest))
		if applied.GetLabels()["team"] != "platform" {
			t.Errorf("applied %v", applied.Object)
		}
		_, err = all.Apply(ctx, "south", gate("doors.example.com/v1", "south", bad), byTest)
		wantDenied(t, "apply", err, "no passwords in a Gate")
		if err := all.Delete(ctx, "north", metav1.DeleteOptions{}); err != nil {
			t.Errorf("delete: %v", err)
		}
	})
}

// TestOtherVersion writes an object in a version that no policy names. In the server it is
// decided as the version that one names; a client cannot convert it.
func TestOtherVersion(t *testing.T) {
	t.Parallel()
	r := rigs(t)["plugin"](t)
	install(t, r)
	ctx := testContext(t)
	all := r.dynamic.Resource(gates.GroupResource().WithVersion("v2")).Namespace(r.Namespace(t))
	_, err := all.Create(ctx, gate("doors.example.com/v2", "bad", map[string]any{"password": "x"}), metav1.CreateOptions{})
	wantDenied(t, "create", err, "no passwords in a Gate")
	var created *unstructured.Unstructured
	eventually(t, "CUE in the time of a rule, beside the other API servers of these tests", func() bool {
		created, err = all.Create(ctx, gate("doors.example.com/v2", "north", nil), metav1.CreateOptions{})
		return err == nil || !strings.Contains(err.Error(), "took too long")
	})
	if err != nil {
		t.Fatal(err)
	}
	if created.GetAPIVersion() != "doors.example.com/v2" || created.GetLabels()["team"] != "platform" {
		t.Errorf("created %v", created.Object)
	}
}

// TestControllerRuntime writes with the client of controllers.
func TestControllerRuntime(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		ctx, namespace := testContext(t), r.Namespace(t)
		c := must[client.Client](t)(client.New(r.config, client.Options{}))
		site := configMap("site", "a")
		site.Namespace = namespace
		if err := c.Create(ctx, site); err != nil {
			t.Fatal(err)
		}
		if site.Labels["team"] != "platform" {
			t.Errorf("created with the labels %v", site.Labels)
		}
		changed := site.DeepCopy()
		changed.Data["password"] = "x"
		wantDenied(t, "update", c.Update(ctx, changed), noPasswords)
		wantDenied(t, "patch", c.Patch(ctx, changed.DeepCopy(), client.MergeFrom(site)), noPasswords)
		wantDenied(t, "strategic patch", c.Patch(ctx, changed.DeepCopy(), client.StrategicMergeFrom(site)), noPasswords)
		optimistic := client.MergeFromWithOptions(site.DeepCopy(), client.MergeFromWithOptimisticLock{})
		changed = site.DeepCopy()
		changed.Labels = nil
		if err := c.Patch(ctx, changed, optimistic); err != nil || changed.Labels["team"] != "platform" {
			t.Errorf("patched with a lock to %v, %v", changed.Labels, err)
		}
		changed.Labels["protected"] = ""
		if err := c.Update(ctx, changed); err != nil {
			t.Fatal(err)
		}
		wantDenied(t, "delete", c.Delete(ctx, changed), "site is protected")
		wantDenied(t, "delete all", c.DeleteAllOf(ctx, &corev1.ConfigMap{}, client.InNamespace(namespace), client.MatchingLabels{"protected": ""}), "site is protected")
		delete(changed.Labels, "protected")
		if err := c.Update(ctx, changed); err != nil {
			t.Fatal(err)
		}
		if err := c.Delete(ctx, changed); err != nil {
			t.Error(err)
		}
		if err := c.Get(ctx, client.ObjectKeyFromObject(site), site); !apierrors.IsNotFound(err) {
			t.Errorf("after the deletion: %v", err)
		}
	})
}

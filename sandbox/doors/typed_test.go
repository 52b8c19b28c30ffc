package doors

import (
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/util/retry"
)

const (
	noPasswords = "no passwords in a ConfigMap"
	protobuf    = "application/vnd.kubernetes.protobuf"
)

func configMap(name string, data ...string) *corev1.ConfigMap {
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{}}
	for _, key := range data {
		object.Data[key] = "x"
	}
	return object
}

func deployment(name string) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{Containers: []corev1.Container{
					{Name: "main", Image: "registry.example/main:1"}, {Name: "side", Image: "registry.example/side:1"},
				}},
			},
		},
	}
}

// TestTypedClient writes with the typed client, in both encodings that it has.
func TestTypedClient(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		for _, contentType := range []string{"application/json", protobuf} {
			config := rest.CopyConfig(r.config)
			config.ContentType = contentType
			client := must[*kubernetes.Clientset](t)(kubernetes.NewForConfig(config))
			writeTyped(t, client, r.Namespace(t), contentType)
		}
	})
}

func writeTyped(t *testing.T, client kubernetes.Interface, namespace, how string) {
	t.Helper()
	ctx := testContext(t)
	maps := client.CoreV1().ConfigMaps(namespace)
	get := must[*corev1.ConfigMap](t)

	created := get(maps.Create(ctx, configMap("site", "a"), metav1.CreateOptions{}))
	if created.Labels["team"] != "platform" {
		t.Errorf("%s: created with the labels %v", how, created.Labels)
	}
	_, err := maps.Create(ctx, configMap("bad", "password"), metav1.CreateOptions{})
	wantDenied(t, how+": create", err, noPasswords)
	if _, err := maps.Get(ctx, "bad", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("%s: what was denied is there: %v", how, err)
	}

	dry := get(maps.Create(ctx, configMap("dry"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}))
	if dry.Labels["team"] != "platform" {
		t.Errorf("%s: dry run has the labels %v", how, dry.Labels)
	}
	if _, err := maps.Get(ctx, "dry", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("%s: a dry run was none: %v", how, err)
	}

	created.Labels = map[string]string{"a": "b"}
	updated := get(maps.Update(ctx, created, metav1.UpdateOptions{}))
	if updated.Labels["team"] != "platform" || updated.Labels["a"] != "b" {
		t.Errorf("%s: updated to the labels %v", how, updated.Labels)
	}
	if _, err = maps.Update(ctx, created, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("%s: update of an old version: %v, want a conflict", how, err)
	}
	_, err = maps.Update(ctx, configMap("site", "password"), metav1.UpdateOptions{})
	wantDenied(t, how+": update", err, noPasswords)
	anyVersion := get(maps.Update(ctx, configMap("site", "b"), metav1.UpdateOptions{}))
	if anyVersion.Labels["team"] != "platform" || anyVersion.Data["b"] != "x" {
		t.Errorf("%s: updated without a version to %v %v", how, anyVersion.Labels, anyVersion.Data)
	}
	if _, err := maps.Update(ctx, configMap("absent"), metav1.UpdateOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("%s: update of what is not there: %v", how, err)
	}
	if list, err := maps.List(ctx, metav1.ListOptions{LabelSelector: "team=platform"}); err != nil || len(list.Items) != 1 {
		t.Errorf("%s: list: %v, %v", how, list, err)
	}
}

func TestPatches(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		ctx, namespace := testContext(t), r.Namespace(t)
		maps := r.kube.CoreV1().ConfigMaps(namespace)
		must[*corev1.ConfigMap](t)(maps.Create(ctx, configMap("site"), metav1.CreateOptions{}))
		for _, test := range []struct {
			kind               types.PatchType
			harmless, password string
			// bare takes all labels away.
			bare string
		}{
			{
				types.JSONPatchType, `[{"op":"add","path":"/data","value":{"a":"1"}},{"op":"test","path":"/data/a","value":"1"}]`,
				`[{"op":"add","path":"/data/password","value":"x"}]`, `[{"op":"remove","path":"/metadata/labels"}]`,
			},
			{types.MergePatchType, `{"data":{"b":"1"}}`, `{"data":{"password":"x"}}`, `{"metadata":{"labels":null}}`},
			{
				types.StrategicMergePatchType, `{"data":{"c":"1"}}`, `{"data":{"password":"x"}}`,
				`{"metadata":{"labels":{"$patch":"delete"}}}`,
			},
		} {
			harmless, err := maps.Patch(ctx, "site", test.kind, []byte(test.harmless), metav1.PatchOptions{})
			if err != nil {
				t.Errorf("%s: %v", test.kind, err)
			} else if harmless.Labels["team"] != "platform" {
				t.Errorf("%s: patched to the labels %v", test.kind, harmless.Labels)
			}
			_, err = maps.Patch(ctx, "site", test.kind, []byte(test.password), metav1.PatchOptions{})
			wantDenied(t, string(test.kind), err, noPasswords)
			bare, err := maps.Patch(ctx, "site", test.kind, []byte(test.bare), metav1.PatchOptions{})
			if err != nil {
				t.Errorf("%s: %v", test.kind, err)
			} else if bare.Labels["team"] != "platform" || len(bare.Data) == 0 || bare.Data["password"] != "" {
				t.Errorf("%s: patched to %v %v", test.kind, bare.Labels, bare.Data)
			}
			if _, err := maps.Patch(ctx, "absent", test.kind, []byte(test.harmless), metav1.PatchOptions{}); !apierrors.IsNotFound(err) {
				t.Errorf("%s of what is not there: %v", test.kind, err)
			}
		}
		_, err := maps.Patch(ctx, "site", types.JSONPatchType, []byte(`[{"op":"test","path":"/data/a","value":"2"}]`), metav1.PatchOptions{})
		if !apierrors.IsInvalid(err) {
			t.Errorf("a patch that does not apply: %v, want the server's own error", err)
		}
		_, err = maps.Patch(ctx, "site", types.MergePatchType, []byte(`{"metadata":{"resourceVersion":"1"}}`), metav1.PatchOptions{})
		if !apierrors.IsConflict(err) {
			t.Errorf("a patch for another version: %v, want a conflict", err)
		}
	})
}

// TestPatchesMeet patches one object from many sides: every patch is decided on the object
// that it meets, and none is lost.
func TestPatchesMeet(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		ctx, namespace := testContext(t), r.Namespace(t)
		maps := r.kube.CoreV1().ConfigMaps(namespace)
		must[*corev1.ConfigMap](t)(maps.Create(ctx, configMap("site"), metav1.CreateOptions{}))
		const sides = 6
		done := make(chan error, sides)
		for i := range sides {
			go func() {
				patch := fmt.Sprintf(`{"data":{"key-%d":"1"}}`, i)
				done <- retry.RetryOnConflict(retry.DefaultBackoff, func() error {
					_, err := maps.Patch(ctx, "site", types.MergePatchType, []byte(patch), metav1.PatchOptions{})
					return err
				})
			}()
		}
		for range sides {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		if site := must[*corev1.ConfigMap](t)(maps.Get(ctx, "site", metav1.GetOptions{})); len(site.Data) != sides {
			t.Errorf("of %d patches there are %v", sides, site.Data)
		}
	})
}

func TestDeletion(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		ctx, namespace := testContext(t), r.Namespace(t)
		maps := r.kube.CoreV1().ConfigMaps(namespace)
		kept := configMap("kept")
		kept.Labels = map[string]string{"protected": "", "set": "a"}
		free := configMap("free")
		free.Labels = map[string]string{"set": "a"}
		for _, object := range []*corev1.ConfigMap{kept, free} {
			must[*corev1.ConfigMap](t)(maps.Create(ctx, object, metav1.CreateOptions{}))
		}
		wantDenied(t, "delete", maps.Delete(ctx, "kept", metav1.DeleteOptions{}), "kept is protected")
		set := metav1.ListOptions{LabelSelector: "set=a"}
		wantDenied(t, "delete collection", maps.DeleteCollection(ctx, metav1.DeleteOptions{}, set), "kept is protected")
		must[*corev1.ConfigMap](t)(maps.Get(ctx, "kept", metav1.GetOptions{}))
		must[*corev1.ConfigMap](t)(maps.Patch(ctx, "kept", types.MergePatchType, []byte(`{"metadata":{"labels":{"protected":null}}}`), metav1.PatchOptions{}))
		if err := maps.DeleteCollection(ctx, metav1.DeleteOptions{}, set); err != nil {
			t.Errorf("delete collection: %v", err)
		}
		if list, err := maps.List(ctx, set); err != nil || len(list.Items) != 0 {
			t.Errorf("after the deletion there are %v, %v", list, err)
		}
		if err := maps.Delete(ctx, "kept", metav1.DeleteOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("delete of what is not there: %v", err)
		}
		must[*corev1.ConfigMap](t)(maps.Create(ctx, configMap("last"), metav1.CreateOptions{}))
		dry := metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}
		if err := maps.Delete(ctx, "last", dry); err != nil {
			t.Errorf("dry run of a deletion: %v", err)
		}
		if err := maps.Delete(ctx, "last", metav1.DeleteOptions{}); err != nil {
			t.Errorf("delete: %v", err)
		}
	})
}

func TestSubresources(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		ctx, namespace := testContext(t), r.Namespace(t)
		deployments := r.kube.AppsV1().Deployments(namespace)
		created := must[*appsv1.Deployment](t)(deployments.Create(ctx, deployment("web"), metav1.CreateOptions{}))
		for _, c := range created.Spec.Template.Spec.Containers {
			if c.ImagePullPolicy != corev1.PullAlways {
				t.Errorf("container %s is pulled %s", c.Name, c.ImagePullPolicy)
			}
		}
		scale := must[*autoscalingv1.Scale](t)(deployments.GetScale(ctx, "web", metav1.GetOptions{}))
		scale.Spec.Replicas = 6
		_, err := deployments.UpdateScale(ctx, "web", scale, metav1.UpdateOptions{})
		wantDenied(t, "update scale", err, "6 replicas are too many")
		_, err = deployments.Patch(ctx, "web", types.MergePatchType, []byte(`{"spec":{"replicas":7}}`), metav1.PatchOptions{}, "scale")
		wantDenied(t, "patch scale", err, "7 replicas are too many")
		scale.Spec.Replicas = 2
		if _, err := deployments.UpdateScale(ctx, "web", scale, metav1.UpdateOptions{}); err != nil {
			t.Errorf("update scale: %v", err)
		}
		status := must[*appsv1.Deployment](t)(deployments.Get(ctx, "web", metav1.GetOptions{}))
		status.Status.ReadyReplicas = 1
		status.Status.Replicas = 2
		if _, err := deployments.UpdateStatus(ctx, status, metav1.UpdateOptions{}); err != nil {
			t.Errorf("update status: %v", err)
		}
		wantDenied(t, "exec", execute(t, r, namespace), "no sh here")
	})
}

// execute opens a shell in a pod, which does not have to be there.
func execute(t *testing.T, r *rig, namespace string) error {
	t.Helper()
	request := r.kube.CoreV1().RESTClient().Post().Resource("pods").Namespace(namespace).Name("web").SubResource("exec")
	request.Param("command", "sh").Param("stdout", "true")
	executor, err := remotecommand.NewWebSocketExecutor(r.config, "GET", request.URL().String())
	if err != nil {
		t.Fatal(err)
	}
	err = executor.StreamWithContext(testContext(t), remotecommand.StreamOptions{Stdout: discard{}})
	return statusOf(err)
}

type discard struct{}

func (discard) Write(text []byte) (int, error) { return len(text), nil }

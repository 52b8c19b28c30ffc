package doors

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	appsapply "k8s.io/client-go/applyconfigurations/apps/v1"
	coreapply "k8s.io/client-go/applyconfigurations/core/v1"
	metaapply "k8s.io/client-go/applyconfigurations/meta/v1"
)

var byTest = metav1.ApplyOptions{FieldManager: "test"}

// TestApply applies from the server's side: what policies add becomes part of what is
// applied, and what the client no longer applies goes.
func TestApply(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		ctx, namespace := testContext(t), r.Namespace(t)
		maps := r.kube.CoreV1().ConfigMaps(namespace)
		site := func(keys ...string) *coreapply.ConfigMapApplyConfiguration {
			data := map[string]string{}
			for _, key := range keys {
				data[key] = "x"
			}
			return coreapply.ConfigMap("site", namespace).WithData(data)
		}
		for _, step := range [][]string{{"a", "b"}, {"a", "b"}, {"a"}} {
			applied, err := maps.Apply(ctx, site(step...), byTest)
			if err != nil {
				t.Fatalf("apply %v: %v", step, err)
			}
			if applied.Labels["team"] != "platform" || len(applied.Data) != len(step) {
				t.Errorf("applied %v: %v %v", step, applied.Labels, applied.Data)
			}
		}
		_, err := maps.Apply(ctx, site("a", "password"), byTest)
		wantDenied(t, "apply", err, noPasswords)

		other := coreapply.ConfigMap("site", namespace).WithData(map[string]string{"a": "y"})
		if _, err := maps.Apply(ctx, other, metav1.ApplyOptions{FieldManager: "other"}); !apierrors.IsConflict(err) {
			t.Errorf("apply of what another manager has applied: %v, want a conflict", err)
		}
		if _, err := maps.Apply(ctx, other, metav1.ApplyOptions{FieldManager: "other", Force: true}); err != nil {
			t.Errorf("apply by force: %v", err)
		}
	})
}

// TestApplyToAnElement has a policy change an element of a list of which the client applies
// another part.
func TestApplyToAnElement(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		ctx, namespace := testContext(t), r.Namespace(t)
		deployments := r.kube.AppsV1().Deployments(namespace)
		labels := map[string]string{"app": "web"}
		web := func(image string) *appsapply.DeploymentApplyConfiguration {
			pod := coreapply.PodSpec().WithContainers(
				coreapply.Container().WithName("main").WithImage(image),
				coreapply.Container().WithName("side").WithImage("registry.example/side:1").WithImagePullPolicy(corev1.PullNever))
			return appsapply.Deployment("web", namespace).WithSpec(appsapply.DeploymentSpec().
				WithSelector(metaapply.LabelSelector().WithMatchLabels(labels)).
				WithTemplate(coreapply.PodTemplateSpec().WithLabels(labels).WithSpec(pod)))
		}
		for _, image := range []string{"registry.example/main:1", "registry.example/main:2"} {
			applied, err := deployments.Apply(ctx, web(image), byTest)
			if err != nil {
				t.Fatalf("apply %s: %v", image, err)
			}
			wantPulled(t, applied, image)
		}
	})
}

func wantPulled(t *testing.T, d *appsv1.Deployment, image string) {
	t.Helper()
	containers := d.Spec.Template.Spec.Containers
	if len(containers) != 2 || containers[0].Image != image {
		t.Fatalf("applied %v, want two with the image %s", containers, image)
	}
	for _, c := range containers {
		if c.ImagePullPolicy != corev1.PullAlways {
			t.Errorf("container %s is pulled %s, want Always", c.Name, c.ImagePullPolicy)
		}
	}
}

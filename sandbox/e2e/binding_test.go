package e2e

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/usher-dev/usher/sandbox"
)

// forbiddingBindings rejects Bindings by their labels.
const forbiddingBindings = `
apiVersion: policy.kcloudlabs.io/v1alpha1
kind: ClusterValidatePolicy
metadata: {name: bindings-%[1]s}
spec:
  resourceSelectors:
  - {apiVersion: v1, kind: Binding, namespace: %[1]q, labelSelector: {matchLabels: {app: forbidden}}}
  validateRules:
  - targetOperations: [CREATE]
    cue: |
      validate: {valid: false, reason: "not bound here"}
`

// TestMetadataThroughBindings shows what docs/security.md says: a Binding writes metadata of its
// pod, and a policy on Bindings sees it. Its usher may not list pods, so that the control plane also
// serves for pods that exist.
func TestMetadataThroughBindings(t *testing.T) {
	t.Parallel()
	r := newRig(t, sandbox.Options{Exclusive: true})
	r.serveUnprivileged(t)
	namespace := r.Namespace(t)
	bind := func(labels map[string]string) (*corev1.Pod, error) {
		ctx, pods := testContext(t), r.kube.CoreV1().Pods(namespace)
		pod, err := pods.Create(ctx, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "pod-", Labels: map[string]string{"app": "allowed"}},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
		}, metav1.CreateOptions{})
		if err != nil {
			return nil, err
		}
		err = pods.Bind(ctx, &corev1.Binding{
			ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Labels: labels, Annotations: map[string]string{"by": "binding"}},
			Target:     corev1.ObjectReference{Kind: "Node", Name: "node"},
		}, metav1.CreateOptions{})
		if err != nil {
			return nil, err
		}
		return pods.Get(ctx, pod.Name, metav1.GetOptions{})
	}
	var bound *corev1.Pod
	eventually(t, "a pod is bound", func() (err error) {
		bound, err = bind(map[string]string{"app": "forbidden"})
		return err
	})
	if bound.Annotations["by"] != "binding" {
		t.Errorf("the pod has the annotations %v", bound.Annotations)
	}
	r.enforce(t, parse(t, forbiddingBindings, namespace))
	eventually(t, "the Binding is rejected", func() error {
		if _, err := bind(map[string]string{"app": "forbidden"}); err == nil || !strings.Contains(err.Error(), "not bound here") {
			return fmt.Errorf("got %v", err)
		}
		return nil
	})
	if _, err := bind(nil); err != nil {
		t.Errorf("another Binding: %v", err)
	}
	r.existingPods(t)
}

package e2e

import (
	"flag"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	psatest "k8s.io/pod-security-admission/test"

	"github.com/usher-dev/usher/sandbox"
)

// whole is set by make pod-security.
var whole = flag.Bool("whole", false, "send all pods of the Pod Security Standards, in place of a sample")

// TestPodSecurityOfUpstream runs the test that Kubernetes has for clusters with its plugin PodSecurity
// on one that has policies in place of it.
func TestPodSecurityOfUpstream(t *testing.T) {
	t.Parallel()
	if !*whole {
		t.Skip("run with -whole, which sends 2,200 requests: TestPodSecurityPlugin sends a sample")
	}
	r := newRig(t, sandbox.Options{Exclusive: true, APIServerArgs: []string{"--disable-admission-plugins=PodSecurity"}})
	r.serve(t)
	namespace := r.Namespace(t)
	if _, err := r.kube.CoreV1().Namespaces().Update(testContext(t), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: namespace, Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"},
	}}, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.try(testContext(t), pod(t, namespace, "any")); err != nil {
		t.Fatalf("without policies, something else decides: %v", err)
	}
	r.installPack(t, "pod-security-labels", nil)
	eventually(t, "the policies to act", func() error {
		_, err := r.try(testContext(t), pod(t, namespace, "any"))
		return wantDenied(err, `violates PodSecurity "restricted:latest"`)
	})
	psatest.Run(t, psatest.Options{ClientConfig: r.RESTConfig})
}

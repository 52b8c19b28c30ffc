package sandbox_test

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/usher-dev/usher/sandbox"
)

func TestStartSharesEqualClusters(t *testing.T) {
	t.Parallel()
	first, second := sandbox.Start(t), sandbox.Start(t, sandbox.Options{})
	if first != second {
		t.Errorf("equal options gave two clusters, with the processes %d and %d", first.PID, second.PID)
	}
	one, two := first.Namespace(t), second.Namespace(t)
	if one == two {
		t.Errorf("two namespaces have the name %s", one)
	}
	client := kubernetes.NewForConfigOrDie(first.RESTConfig)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "cart"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "registry.example/cart:1"}}},
	}
	if _, err := client.CoreV1().Pods(one).Create(context.Background(), pod, metav1.CreateOptions{}); err != nil {
		t.Errorf("create pod: %v", err)
	}
}

func TestRestartKeepsDataAndAddress(t *testing.T) {
	t.Parallel()
	cluster := sandbox.Start(t, sandbox.Options{Exclusive: true, Controllers: "none"})
	client := kubernetes.NewForConfigOrDie(cluster.RESTConfig)
	namespace := cluster.Namespace(t)
	for _, down := range []struct {
		name string
		end  func(testing.TB)
	}{
		{"killed", cluster.Kill},
		{"stopped", cluster.Stop},
		{"running", func(testing.TB) {}},
	} {
		down.end(t)
		cluster.Restart(t)
		// The client is the one of before: the address and the certificates are as well.
		if _, err := client.CoreV1().Namespaces().Get(context.Background(), namespace, metav1.GetOptions{}); err != nil {
			t.Errorf("restarted when %s: %v", down.name, err)
		}
	}
}

func TestJoinServesTheSameData(t *testing.T) {
	t.Parallel()
	cluster := sandbox.Start(t)
	joined := cluster.Join(t)
	namespace := joined.Namespace(t)
	client := kubernetes.NewForConfigOrDie(cluster.RESTConfig)
	if _, err := client.CoreV1().Namespaces().Get(context.Background(), namespace, metav1.GetOptions{}); err != nil {
		t.Errorf("read what was written through the other API server: %v", err)
	}
	joined.Kill(t)
	joined.Restart(t)
	if _, err := kubernetes.NewForConfigOrDie(joined.RESTConfig).CoreV1().Namespaces().Get(context.Background(), namespace, metav1.GetOptions{}); err != nil {
		t.Errorf("read after the restart: %v", err)
	}
}

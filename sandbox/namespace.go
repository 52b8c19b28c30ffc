package sandbox

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// Namespace creates a namespace for the test, in which pods can be created, and removes it with the
// test. It may be called by several tests at a time.
func (c *Cluster) Namespace(t testing.TB) string {
	t.Helper()
	client, err := kubernetes.NewForConfig(c.RESTConfig)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	namespace, err := client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "test-", Labels: map[string]string{"usher.dev/test": label(t.Name())}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("make namespace: %v", err)
	}
	t.Cleanup(func() {
		// The cluster may be down at the end of a test that stops it.
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = client.CoreV1().Namespaces().Delete(ctx, namespace.Name, metav1.DeleteOptions{})
	})
	c.awaitServiceAccount(ctx, t, client, namespace.Name)
	return namespace.Name
}

// awaitServiceAccount waits until a controller has created the default service account of a new
// namespace: no pod is admitted without it.
func (c *Cluster) awaitServiceAccount(ctx context.Context, t testing.TB, client kubernetes.Interface, namespace string) {
	t.Helper()
	if c.options.Controllers != "" && c.options.Controllers != "core" && !strings.Contains(c.options.Controllers, "serviceaccount-controller") {
		return
	}
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		_, err := client.CoreV1().ServiceAccounts(namespace).Get(ctx, "default", metav1.GetOptions{})
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("wait for the service account of namespace %s: %v", namespace, err)
		case <-ticker.C:
		}
	}
}

// label converts a test's name to the value of a label.
func label(name string) string {
	name = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '-' || r == '_' {
			return r
		}
		return '-'
	}, name)
	return strings.Trim(name[:min(len(name), 63)], "-._")
}

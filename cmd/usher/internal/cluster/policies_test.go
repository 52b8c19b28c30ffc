package cluster_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"github.com/usher-dev/usher/cmd/usher/internal/cluster"
)

func TestNoNamespace(t *testing.T) {
	t.Parallel()
	client := dynamicfake.NewSimpleDynamicClient(clientgoscheme.Scheme, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}})
	for name, want := range map[string]string{
		"": "", "shop": "",
		"shpo":    `namespaces "shpo" not found: did you mean shop?`,
		"payment": `namespaces "payment" not found`,
	} {
		got := ""
		if err := cluster.NoNamespace(t.Context(), client, name); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}

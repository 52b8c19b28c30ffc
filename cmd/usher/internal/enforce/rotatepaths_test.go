package enforce_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/usher-dev/usher/cmd/usher/internal/enforce"
)

func TestRotatePaths(t *testing.T) {
	t.Parallel()
	kube := fake.NewClientset(secret("usher-system", "usher-paths", "usher"))
	seen := map[string]bool{}
	for range 3 {
		if _, err := enforce.RotatePaths(t.Context(), kube, "usher-system", "usher-paths"); err != nil {
			t.Fatal(err)
		}
		rotated, err := kube.CoreV1().Secrets("usher-system").Get(t.Context(), "usher-paths", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if current := rotated.Data["current"]; seen[string(current)] || len(current) != 32 {
			t.Errorf("the key was %d bytes, and used before: %t", len(current), seen[string(current)])
		}
		if len(seen) > 0 && !seen[string(rotated.Data["previous"])] {
			t.Error("the key before is not the one that was current")
		}
		seen[string(rotated.Data["current"])] = true
	}
}

func TestRotatePathsOfNobody(t *testing.T) {
	t.Parallel()
	kube := fake.NewClientset()
	_, err := enforce.RotatePaths(t.Context(), kube, "elsewhere", "usher-paths")
	if err == nil || !strings.Contains(err.Error(), "there is no Secret elsewhere/usher-paths: name that of the servers with --namespace and --path-secret") {
		t.Errorf("error is %v", err)
	}
	if len(kube.Actions()) != 1 {
		t.Errorf("actions are %v: a key that no server reads was made", kube.Actions())
	}
}

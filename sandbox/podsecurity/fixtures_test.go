package podsecurity

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	psaapi "k8s.io/pod-security-admission/api"
	"sigs.k8s.io/yaml"
)

// fixtures is how many pods Kubernetes has in the testdata of the module.
const fixtures = 4241

// TestFixtures decides the pods with which Kubernetes tests its own checks, by level and version.
func TestFixtures(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(module(t), "test", "testdata")
	evaluator, seen := upstream(t), 0
	for _, level := range levels {
		versions, err := os.ReadDir(filepath.Join(folder, string(level)))
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range versions {
			version, err := versionOf(v.Name())
			if err != nil {
				t.Fatal(err)
			}
			at, d := psaapi.LevelVersion{Level: level, Version: version}, enforced(t, level, v.Name())
			for _, verdict := range []string{"pass", "fail"} {
				for _, pod := range podsIn(t, filepath.Join(folder, string(level), v.Name(), verdict)) {
					if denied := same(t, evaluator, d, at, pod); denied != (verdict == "fail") {
						t.Errorf("%s: %s is denied: %t, and is among those that %s", at, pod.Name, denied, verdict)
					}
					seen++
				}
			}
		}
	}
	if seen != fixtures {
		t.Errorf("decided %d pods, expected %d", seen, fixtures)
	}
}

// module returns the folder of k8s.io/pod-security-admission.
func module(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/pod-security-admission").Output()
	if err != nil {
		t.Fatal(fmt.Errorf("find k8s.io/pod-security-admission: %w", err))
	}
	return strings.TrimSpace(string(out))
}

func podsIn(t *testing.T, folder string) []*corev1.Pod {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var pods []*corev1.Pod
	for _, file := range files {
		written, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		pod := &corev1.Pod{}
		if err := yaml.UnmarshalStrict(written, pod); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		setDefaults(pod)
		pods = append(pods, pod)
	}
	return pods
}

// setDefaults sets what API servers set before they ask, and checks read: a volume of no type is an
// empty directory.
func setDefaults(pod *corev1.Pod) {
	for i := range pod.Spec.Volumes {
		if source := &pod.Spec.Volumes[i].VolumeSource; *source == (corev1.VolumeSource{}) {
			source.EmptyDir = &corev1.EmptyDirVolumeSource{}
		}
	}
}

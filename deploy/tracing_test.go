package deploy_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/usher-dev/usher/internal/observe/spans"
)

// The configuration of tracing is one that the server reads, at the path of its flag, and pods are replaced
// when it changes.
func TestTracing(t *testing.T) {
	t.Parallel()
	stamps := map[string]bool{}
	for _, endpoint := range []string{"", "collector.monitoring:4317"} {
		objects := (&rendering{args: []string{"--set", "tracing.enabled=true,tracing.samplingRatePerMillion=1000000", "--set-string", "tracing.endpoint=" + endpoint}}).objects(t)
		var text string
		var pod *corev1.PodTemplateSpec
		for _, object := range objects {
			switch o := object.(type) {
			case *corev1.ConfigMap:
				text = o.Data["tracing.yaml"]
			case *appsv1.Deployment:
				pod = &o.Spec.Template
			}
		}
		file := filepath.Join(t.TempDir(), "tracing.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := spans.Load(file)
		if err != nil {
			t.Fatal(err)
		}
		if endpoint == "" && c.Endpoint != nil || endpoint != "" && *c.Endpoint != endpoint || *c.SamplingRatePerMillion != 1_000_000 {
			t.Errorf("endpoint %q:\n%s", endpoint, text)
		}
		container := &pod.Spec.Containers[0]
		if !slices.Contains(container.Args, "--tracing-config-file=/etc/usher/tracing/tracing.yaml") {
			t.Errorf("args %v", container.Args)
		}
		mounted := slices.ContainsFunc(container.VolumeMounts, func(m corev1.VolumeMount) bool {
			return m.MountPath == "/etc/usher/tracing" && slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
				return v.Name == m.Name && v.ConfigMap != nil && v.ConfigMap.Name == "usher-tracing"
			})
		})
		if !mounted {
			t.Error("the file is not mounted")
		}
		stamps[pod.Annotations["usher.dev/tracing"]] = true
	}
	if len(stamps) != 2 || stamps[""] {
		t.Errorf("pods have the annotations %v", stamps)
	}
	if out, err := template(t, "--set", "tracing.enabled=true,tracing.endpoint=https://collector:4317"); err == nil || !strings.Contains(out, "endpoint") {
		t.Errorf("a URL: %v\n%s", err, out)
	}
}

package template_test

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/usher-dev/usher/internal/lang/template"
)

var update = flag.Bool("update", false, "write the rendered programs to testdata")

// TestRender compares programs with those in testdata, which cue fmt leaves as they are.
func TestRender(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"annotations": `{type: annotations, operation: add, path: corp.example/team, value: {string: 'say "hi" to \(object.metadata.name)'}}`,
		"computed":    `{type: labels, operation: remove, path: 'by-\(kind)'}`,
		"labels":      `{type: labels, operation: replace, path: zone, valueRef: {from: k8s, path: /data/zone, k8s: {apiVersion: v1, kind: ConfigMap, name: site}}}`,
		"resources":   `{type: resources, operation: replace, resources: {requests: {cpu: 500m}, limits: {nvidia.com/gpu: 1}}}`,
		"oversell":    `{type: resourcesOversell, operation: replace, resourcesOversell: {cpuFactor: "0.5", diskFactor: "0.1"}}`,
		"idle":        `{type: resourcesOversell, operation: replace, resourcesOversell: {cpuFactor: "1"}}`,
		"tolerations": `{type: tolerations, operation: replace, tolerations: [{key: gpu, operator: Exists, tolerationSeconds: 5}]}`,
		"untolerated": `{type: tolerations, operation: remove, tolerations: [{key: gpu, operator: Exists}, {key: spot, value: "yes"}]}`,
		"affinity":    `{type: affinity, operation: add, affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, preference: {matchExpressions: [{key: disk, operator: In, values: [ssd]}]}}]}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, _ := template.Render(parse(t, text))
			file := filepath.Join("testdata", name+".cue")
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", file, diff)
			}
		})
	}
}

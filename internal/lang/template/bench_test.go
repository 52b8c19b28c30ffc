package template_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/usher-dev/usher/internal/lang/template"
	"github.com/usher-dev/usher/internal/rule"
)

func BenchmarkRun(b *testing.B) {
	for _, tc := range []struct{ name, template string }{
		{"annotations", `{type: annotations, operation: add, path: corp.example/team, value: {string: sre}}`},
		{"interpolated", `{type: labels, operation: add, path: team, value: {string: 'of-\(object.metadata.name)'}}`},
		{"resources", `{type: resources, operation: replace, resources: {requests: {cpu: 500m, memory: 1Gi}, limits: {cpu: 1, memory: 2Gi}}}`},
		{"oversell", `{type: resourcesOversell, operation: replace, resourcesOversell: {cpuFactor: "0.5", memoryFactor: "0.25", diskFactor: "0.1"}}`},
		{"tolerations", `{type: tolerations, operation: remove, tolerations: [{key: gpu, operator: Exists}]}`},
		{"affinity", `{type: affinity, operation: add, affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, preference: {matchExpressions: [{key: disk, operator: In, values: [ssd]}]}}]}}}`},
	} {
		b.Run(tc.name, func(b *testing.B) {
			program, problems := template.Compile(parse(b, tc.template))
			if program == nil {
				b.Fatal(problems)
			}
			in := &rule.Input{Object: pod4k(b)}
			ctx := b.Context()
			b.ReportAllocs()
			for b.Loop() {
				if _, err := program.Run(ctx, in); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkCompile(b *testing.B) {
	tmpl := parse(b, `{type: resourcesOversell, operation: replace, resourcesOversell: {cpuFactor: "0.5", memoryFactor: "0.25", diskFactor: "0.1"}}`)
	b.ReportAllocs()
	for b.Loop() {
		template.Compile(tmpl)
	}
}

// pod4k returns a pod of about 4 KB of JSON.
func pod4k(tb testing.TB) map[string]any {
	var containers strings.Builder
	for i := range 3 {
		fmt.Fprintf(&containers, `{name: c%d, image: "registry.example/team/app:%d", resources: {limits: {cpu: "2", memory: 4Gi, ephemeral-storage: 10Gi}, requests: {cpu: "1", memory: 1Gi}}, env: [`, i, i)
		for j := range 20 {
			fmt.Fprintf(&containers, `{name: VARIABLE_%d, value: "some value of %d"}, `, j, j)
		}
		containers.WriteString("]}, ")
	}
	return tree(tb, `{apiVersion: v1, kind: Pod, metadata: {name: cart, namespace: shop, labels: {app: cart}, annotations: {a: b}}, spec: {
  tolerations: [{key: node.kubernetes.io/not-ready, operator: Exists}, {key: gpu, operator: Exists}],
  affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 9}]}}, containers: [`+containers.String()+`]}}`)
}

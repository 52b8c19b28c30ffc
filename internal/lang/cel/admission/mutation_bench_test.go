package admission_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/usher-dev/usher/internal/lang/cel/admission"
	"github.com/usher-dev/usher/internal/lang/cel/apply"
)

// BenchmarkMutate evaluates one mutation on a pod, a different one each time.
func BenchmarkMutate(b *testing.B) {
	pods, err := apply.NewTypes().Schema(schema.GroupVersionKind{Version: "v1", Kind: "Pod"})
	if err != nil {
		b.Fatal(err)
	}
	structures := func(*admission.Input) (*apply.Schema, error) { return pods, nil }
	for _, bench := range []struct {
		name string
		m    admission.Mutation
	}{
		{"JSONPatch", admission.Mutation{Type: admission.JSONPatch, Expression: `[JSONPatch{op: "add", path: "/metadata/labels/" + jsonpatch.escapeKey("example.com/team"), value: object.metadata.?labels.?app.orValue("none")}]`}},
		{"label", admission.Mutation{Type: admission.ApplyConfiguration, Expression: `Object{metadata: Object.metadata{labels: {"team": "shop"}}}`}},
		{"sidecar", admission.Mutation{Type: admission.ApplyConfiguration, Expression: `Object{spec: Object.spec{initContainers: [Object.spec.initContainers{name: "s", image: "i", restartPolicy: "Always"}]}}`}},
		{"containers", admission.Mutation{Type: admission.ApplyConfiguration, Expression: `Object{spec: Object.spec{containers: object.spec.containers.map(c, Object.spec.containers{name: c.name, imagePullPolicy: "Always"})}}`}},
	} {
		p, problems := admission.Compile(admission.Code{Mutations: []admission.Mutation{bench.m}})
		if len(problems) > 0 {
			b.Fatal(problems)
		}
		inputs := podInputs()
		b.Run(bench.name, func(b *testing.B) {
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				in := inputs[n%len(inputs)]
				n++
				m, err := p.Mutate(b.Context(), &in, structures)
				if err != nil || len(m.Patch) == 0 {
					b.Fatal(err, m.Failures)
				}
			}
		})
	}
}

package admissionregistration_test

import (
	"context"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/fact/object"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/engine"
	"github.com/usher-dev/usher/internal/index"
	"github.com/usher-dev/usher/internal/jsonpatch"
	"github.com/usher-dev/usher/internal/policytest"
)

const widgets = `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: widgets.example.com}, spec: {group: example.com, scope: Namespaced,
  names: {kind: Widget, plural: widgets}, versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {
    size: {type: integer}, colors: {type: array, items: {type: string}},
    parts: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [name], items: {type: object, required: [name], properties: {name: {type: string}, count: {type: integer}}}}}}}}}}]}}`

const (
	widgetSpec = `{size: 1, parts: [{name: a, count: 1}, {name: b, count: 2}]}`
	widget     = `{apiVersion: example.com/v1, kind: Widget, metadata: {name: w, namespace: shop}, spec: ` + widgetSpec + `}`
)

// TestCustomKinds: the structure of a custom kind is that of its definition, which is a fact.
func TestCustomKinds(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		reason, facts, expression string
		spec                      string
		denial                    string
	}{
		{
			reason: "a list of parts is merged by name", facts: widgets,
			expression: `Object{spec: Object.spec{size: 2, parts: [Object.spec.parts{name: "b", count: 5}, Object.spec.parts{name: "c", count: 1}]}}`,
			spec:       `{size: 2, parts: [{name: a, count: 1}, {name: b, count: 5}, {name: c, count: 1}]}`,
		},
		{
			reason: "a list without keys is replaced as a whole, which is refused", facts: widgets,
			expression: `Object{spec: Object.spec{colors: ["red"]}}`,
			denial:     "may not mutate atomic arrays, maps or structs: .spec.colors",
		},
		{
			reason: "a field that the kind does not have", facts: widgets,
			expression: `Object{spec: Object.spec{nothing: 1}}`, denial: ".spec.nothing: field not declared in schema",
		},
		{
			reason: "a value of another type", facts: widgets,
			expression: `Object{spec: Object.spec{size: "large"}}`, denial: ".spec.size: expected numeric",
		},
		{
			reason:     "a kind that nobody defines",
			expression: `Object{spec: Object.spec{size: 2}}`, denial: "Resource kind example.com/v1, Kind=Widget not found",
		},
		{
			reason: "a version that the definition does not have", facts: strings.Replace(widgets, "name: v1,", "name: v2,", 1),
			expression: `Object{spec: Object.spec{size: 2}}`, denial: "Resource kind example.com/v1, Kind=Widget not found",
		},
	} {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			p := mutatingPolicy("p")
			merge(t, applying(test.expression), &p.Spec)
			rules, problems := compile.Policies([]api.Policy{{Object: p}, {Object: mutatingBinding("p")}})
			if len(problems) > 0 {
				t.Fatal(problems)
			}
			e := engine.New(index.New(rules), fact.Resolvers{fact.Objects: object.FromTrees(decode(t, test.facts))}, engine.Options{})
			q := policytest.Request{Operation: usher.Create, Object: tree(t, widget)}
			r, err := q.For(usher.Mutate)
			if err != nil {
				t.Fatal(err)
			}
			d, err := e.Decide(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(d.Message, test.denial) || (d.Verdict == usher.Deny) != (test.denial != "") {
				t.Fatalf("%s %q, want %q", d.Verdict, d.Message, test.denial)
			}
			if test.denial != "" {
				return
			}
			changed, _, err := jsonpatch.Apply(tree(t, widget), d.Patch)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tree(t, strings.Replace(widget, widgetSpec, test.spec, 1)), changed); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// BenchmarkMutate decides about one pod by one policy, a different object each time.
func BenchmarkMutate(b *testing.B) {
	for _, bench := range []struct{ name, spec string }{
		{"JSONPatch", patching(`[JSONPatch{op: "add", path: "/metadata/labels/" + jsonpatch.escapeKey("example.com/team"), value: object.metadata.?labels.?team.orValue("none")}]`)},
		{"ApplyConfiguration", applying(`Object{metadata: Object.metadata{labels: {"team": "shop"}}, spec: Object.spec{initContainers: [Object.spec.initContainers{name: "s", image: "i", restartPolicy: "Always"}]}}`)},
		{"ApplyConfiguration of containers", applying(`Object{spec: Object.spec{containers: object.spec.containers.map(c, Object.spec.containers{name: c.name, imagePullPolicy: "Always"})}}`)},
	} {
		b.Run(bench.name, func(b *testing.B) {
			p := mutatingPolicy("p")
			merge(b, bench.spec, &p.Spec)
			rules, _ := compile.Policies([]api.Policy{{Object: p}, {Object: mutatingBinding("p")}})
			e := engine.New(index.New(rules), nil, engine.Options{})
			requests := make([]*usher.Request, 64)
			for i := range requests {
				own := tree(b, pod)
				own["metadata"].(map[string]any)["labels"] = map[string]any{"app": strings.Repeat("x", i+1)}
				q := policytest.Request{Operation: usher.Create, Object: maps.Clone(own)}
				var err error
				if requests[i], err = q.For(usher.Mutate); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				n++
				d, err := e.Decide(context.Background(), requests[n%len(requests)])
				if err != nil || len(d.Patch) == 0 {
					b.Fatal(err, d.Message)
				}
			}
		})
	}
}

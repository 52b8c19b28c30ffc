package object_test

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api/usher/v1alpha1"
	"github.com/usher-dev/usher/internal/compile/object"
	"github.com/usher-dev/usher/internal/engine"
	"github.com/usher-dev/usher/internal/index"
)

// objectPolicy compiles the spec of a policy for the cluster.
func objectPolicy(tb testing.TB, spec string) *object.Policy {
	tb.Helper()
	p := &v1alpha1.ClusterObjectPolicy{}
	p.Name = "p"
	if err := yaml.UnmarshalStrict([]byte(spec), &p.Spec); err != nil {
		tb.Fatal(err)
	}
	o, problems := object.Cluster(tb.Context(), p, object.Options{})
	if len(problems) > 0 {
		tb.Fatal(problems)
	}
	return o
}

const forPods = "matchConstraints: {resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [pods]}]}\n"

func podRequest(n int) *usher.Request {
	var containers []any
	for i := range 3 {
		containers = append(containers, map[string]any{
			"name": fmt.Sprintf("c%d", i), "image": fmt.Sprintf("registry.example/shop/web-%d:1.2", n), "imagePullPolicy": "IfNotPresent",
			"resources":       map[string]any{"limits": map[string]any{"memory": "64Mi"}},
			"securityContext": map[string]any{"privileged": false, "runAsNonRoot": true},
		})
	}
	return &usher.Request{
		Phase: usher.Validate, Operation: usher.Create, Kind: schema.GroupVersionKind{Version: "v1", Kind: "Pod"},
		Resource: schema.GroupVersionResource{Version: "v1", Resource: "pods"}, Name: "web", Namespace: "shop", User: usher.User{Name: "jane"},
		Object: usher.TreeObject(map[string]any{
			"apiVersion": "v1", "kind": "Pod",
			"metadata": map[string]any{"name": "web", "namespace": "shop", "labels": map[string]any{"app": fmt.Sprintf("web-%d", n)}},
			"spec":     map[string]any{"containers": containers},
		}),
	}
}

// BenchmarkDecide measures the engine with one policy of five validations, alone and with bindings,
// params and subjects.
func BenchmarkDecide(b *testing.B) {
	five := `
variables: [{name: containers, expression: object.spec.containers}]
validations:
- {name: privileged, expression: "variables.containers.all(c, !c.?securityContext.?privileged.orValue(false))"}
- {name: host, expression: "!object.spec.?hostNetwork.orValue(false)"}
- {name: image, expression: "variables.containers.all(c, c.image.startsWith('registry.example/'))"}
- {name: memory, expression: "variables.containers.all(c, has(c.resources.limits.memory))"}
- {name: labels, expression: "has(object.metadata.labels.app)"}
`
	for _, row := range []struct{ name, spec string }{
		{"five", forPods + five},
		{"five with bindings", forPods + five + `
excludeSubjects: [{groups: [system:masters]}, {serviceAccounts: [kube-system/*]}]
bindings:
- {name: all, validationActions: [Warn], params: {registry: registry.example/}}
- {name: some, params: {registry: registry.example/}, matchResources: {objectSelector: {matchExpressions: [{key: app, operator: Exists}]}}}
`},
	} {
		b.Run(strings.ReplaceAll(row.name, " ", "-"), func(b *testing.B) {
			e := engine.New(index.New(objectPolicy(b, row.spec).Rules()), nil, engine.Options{})
			requests := make([]*usher.Request, 64)
			for i := range requests {
				requests[i] = podRequest(i)
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				d, err := e.Decide(b.Context(), requests[i%len(requests)])
				if err != nil || d.Verdict != usher.Allow {
					b.Fatal(d, err)
				}
			}
		})
	}
}

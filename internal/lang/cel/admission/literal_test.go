package admission_test

import (
	"encoding/json"
	"testing"

	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/lang/cel"
	"github.com/usher-dev/usher/internal/lang/cel/admission"
	"github.com/usher-dev/usher/internal/rule"
)

// TestObjectsInPatches has Object{} in lists and maps that are values of patches.
func TestObjectsInPatches(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ reason, value, want string }{
		{"a list", `[Object.spec.containers{name: "a", args: ["x"]}, Object.spec.containers{name: "b"}]`, `[{"args":["x"],"name":"a"},{"name":"b"}]`},
		{"a list of a loop", `["a"].map(n, Object.spec.containers{name: n})`, `[{"name":"a"}]`},
		{"a map", `{"a": Object.spec.a{b: 1}}`, `{"a":{"b":1}}`},
		{"a list in a list", `[[Object.spec.x{y: true}]]`, `[[{"y":true}]]`},
		{"a list in an object in a list", `[Object.spec.c{ports: [Object.spec.c.ports{containerPort: 80}]}]`, `[{"ports":[{"containerPort":80}]}]`},
		{"an object", `Object.spec.containers{name: "a", limits: {"cpu": "1"}}`, `{"limits":{"cpu":"1"},"name":"a"}`},
		{"an empty one", `[Object.spec.emptyDir{}]`, `[{}]`},
		{"an optional field", `[Object.spec.c{?a: optional.none(), ?b: optional.of("c")}]`, `[{"b":"c"}]`},
	} {
		t.Run(row.reason, func(t *testing.T) {
			t.Parallel()
			p, problems := admission.Compile(admission.Code{Mutations: []admission.Mutation{{Type: admission.JSONPatch, Expression: `[JSONPatch{op: "add", path: "/x", value: ` + row.value + `}]`}}})
			if errs := rule.Errors(problems); errs != nil {
				t.Fatal(errs)
			}
			in := podInputs()[0]
			in.Size, in.Facts, in.Memo = cel.Size{}, &fact.Known{}, nil
			m, err := p.Mutate(t.Context(), &in, nil)
			if err != nil || len(m.Failures) > 0 {
				t.Fatal(err, m.Failures)
			}
			object, err := m.Object()
			if err != nil {
				t.Fatal(err)
			}
			got, err := json.Marshal(object["x"])
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != row.want {
				t.Errorf("the value is %s, want %s", got, row.want)
			}
		})
	}
}

package admission_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/jsonpatch"
	"github.com/usher-dev/usher/internal/lang/cel/admission"
	"github.com/usher-dev/usher/internal/lang/cel/apply"
	"github.com/usher-dev/usher/internal/rule"
)

// The value of a mutation that reads nothing, or only the operation, is kept: each request gets that of its operation,
// as it was, whatever became of it in another one.
func TestConstantMutations(t *testing.T) {
	t.Parallel()
	big := strings.Repeat("x", 3000)
	for _, row := range []struct{ reason, value, create, update string }{
		{"a constant", `{"a": "b"}`, `b`, `b`},
		{"of the operation", `{"a": request.operation}`, `CREATE`, `UPDATE`},
		{"too large to keep", `{"a": "` + big + big + `"}`, big + big, big + big},
	} {
		p, problems := admission.Compile(admission.Code{Mutations: []admission.Mutation{{
			Type: admission.JSONPatch, Expression: `[JSONPatch{op: "add", path: "/x", value: ` + row.value + `}]`,
		}}})
		if errs := rule.Errors(problems); errs != nil {
			t.Fatal(errs)
		}
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				for _, operation := range []usher.Operation{usher.Create, usher.Update, usher.Create, usher.Update} {
					want := map[usher.Operation]string{usher.Create: row.create, usher.Update: row.update}[operation]
					in := admission.Input{Request: &usher.Request{Operation: operation}, Object: map[string]any{}, Facts: &fact.Known{}}
					m, err := p.Mutate(t.Context(), &in, nil)
					if err != nil || len(m.Failures) > 0 {
						t.Error(err, m.Failures)
						return
					}
					object, err := m.Object()
					if diff := cmp.Diff(map[string]any{"x": map[string]any{"a": want}}, object); err != nil || diff != "" {
						t.Errorf("%s: -want +got:\n%s%v", row.reason, diff, err)
					}
					// A rule after it changes what it has set.
					editor := jsonpatch.NewEditor(object)
					if _, err := editor.Append(nil, usher.Patch{{Op: "add", Path: "/x/a", Value: "other"}, {Op: "add", Path: "/x/b", Value: "new"}}); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
	}
}

// A configuration that is kept is checked for each kind.
func TestConstantConfigurations(t *testing.T) {
	t.Parallel()
	types := apply.NewTypes()
	p, problems := admission.Compile(admission.Code{Mutations: []admission.Mutation{{
		Type: admission.ApplyConfiguration, Expression: `Object{spec: Object.spec{nodeName: "x"}}`,
	}}})
	if errs := rule.Errors(problems); errs != nil {
		t.Fatal(errs)
	}
	const unknown = "error applying patch: failed to convert patch object to typed object: .spec.nodeName: field not declared in schema"
	for _, row := range []struct{ kind, failure string }{{"Pod", ""}, {"Node", unknown}, {"Pod", ""}, {"Pod", ""}, {"Node", unknown}, {"Node", unknown}} {
		structures := func(in *admission.Input) (*apply.Schema, error) { return types.Schema(in.Request.Kind) }
		in := admission.Input{
			Request: &usher.Request{Kind: schema.GroupVersionKind{Version: "v1", Kind: row.kind}, Operation: usher.Create},
			Object:  map[string]any{"apiVersion": "v1", "kind": row.kind, "spec": map[string]any{}}, Facts: &fact.Known{},
		}
		m, err := p.Mutate(t.Context(), &in, structures)
		if err != nil {
			t.Fatal(err)
		}
		failure := ""
		for _, f := range m.Failures {
			failure += f.Message
		}
		if failure != row.failure || (len(m.Patch) == 1) != (row.failure == "") {
			t.Errorf("%s: %v, failure %q, expected %q", row.kind, m.Patch, failure, row.failure)
		}
	}
}

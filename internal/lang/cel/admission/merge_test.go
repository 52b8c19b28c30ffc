package admission_test

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/lang/cel"
	"github.com/usher-dev/usher/internal/lang/cel/admission"
	"github.com/usher-dev/usher/internal/lang/cel/apply"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/internal/rule/allowance"
)

// numbered is a map of n entries with a value.
func numbered(n int, value any) map[string]any {
	entries := make(map[string]any, n)
	for i := range n {
		entries[fmt.Sprint("k", i)] = value
	}
	return entries
}

// TestMergesTakeTheirAllowance merges small apply configurations that make large errors or operations, since
// each has the path again, and those that copy large parts of the object, as JSON patches do.
func TestMergesTakeTheirAllowance(t *testing.T) {
	t.Parallel()
	types := apply.NewTypes()
	pods, err := types.Schema(schema.GroupVersionKind{Version: "v1", Kind: "Pod"})
	if err != nil {
		t.Fatal(err)
	}
	custom, err := types.Custom(map[string]any{"type": "object", "properties": map[string]any{
		"spec": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true},
	}})
	if err != nil {
		t.Fatal(err)
	}
	name := strings.Repeat("a", 5000)
	for _, row := range []struct {
		reason, expression string
		// structure is nil for a JSON patch.
		structure *apply.Schema
		mutations int
		want      string
	}{
		{"errors below a long key", "Object{spec: Object.spec{containers: [Object.spec.containers{name: object.long, env: lists.range(500).map(i, Object.spec.containers.env{name: string(i), value: 5})}]}}", pods, 1, "takes too much memory"},
		{"operations below a long key", "Object{spec: Object.spec{tower: object.changed}}", custom, 1, "takes too much memory"},
		{"a large map of the object", `Object{metadata: Object.metadata{labels: {"a": "b"}}}`, pods, 50, "takes too much memory"},
		{"a large list of the object", `Object{metadata: Object.metadata{finalizers: ["x"]}}`, pods, 50, "takes too much memory"},
		{"errors with a long name of a type", "Object{spec: Object.spec{containers: lists.range(2000).map(i, Object." + name + "{})}}", pods, 1, "type mismatch: unexpected type name"},
		{"a large map of the object, by patches", `[JSONPatch{op: "add", path: "/metadata/labels/a", value: string(object.metadata.labels.size()) + object.metadata.labels[?"a"].orValue("")}]`, nil, 50, "takes too much memory"},
		{"a large map that is in two places after each operation", `lists.range(60).map(i, [JSONPatch{op: "copy", from: "/few", path: "/more"}, JSONPatch{op: "add", path: "/metadata/labels/a" + string(i), value: "1"}]).flatten()`, nil, 1, "takes too much memory"},
	} {
		source, of := admission.Code{}, admission.ApplyConfiguration
		if row.structure == nil {
			of = admission.JSONPatch
		}
		for range row.mutations {
			source.Mutations = append(source.Mutations, admission.Mutation{Type: of, Expression: row.expression})
		}
		p, problems := admission.Compile(source)
		if rule.Errors(problems) != nil {
			t.Fatalf("%s: %.300v", row.reason, problems)
		}
		in := podInputs()[0]
		in.Size, in.Facts, in.Memo = cel.Size{}, &fact.Known{}, nil
		finalizers := make([]any, 10_000)
		for i := range finalizers {
			finalizers[i] = fmt.Sprint("f", i)
		}
		long := strings.Repeat("~", 50_000)
		in.Object = map[string]any{
			"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "web", "labels": numbered(10_000, "x"), "finalizers": finalizers}, "long": long, "few": map[string]any{"a": "b"},
			"spec": map[string]any{"tower": map[string]any{long: numbered(500, "x")}}, "changed": map[string]any{long: numbered(500, "y")},
		}
		in.Allowance = allowance.Namespace(nil)
		m, err := p.Mutate(t.Context(), &in, func(*admission.Input) (*apply.Schema, error) { return row.structure, nil })
		if err != nil {
			t.Fatal(err)
		}
		if len(m.Failures) == 0 {
			t.Errorf("%s: %d operations are made", row.reason, len(m.Patch))
			continue
		}
		if message := m.Failures[len(m.Failures)-1].Message; !strings.Contains(message, row.want) || len(message) > 128<<10 {
			t.Errorf("%s: a message of %d bytes, want %q: %.300s", row.reason, len(message), row.want, message)
		}
	}
}

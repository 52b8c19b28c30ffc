package admission_test

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/usher-dev/usher/internal/lang/cel"
	"github.com/usher-dev/usher/internal/lang/cel/admission"
	"github.com/usher-dev/usher/internal/rule"
)

// TestGlance: what takes no time worth mentioning is known at a glance, unless it denies.
func TestGlance(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		reason, expression string
		known              bool
	}{
		{"a constant", "object.metadata.name != 'x'", true},
		{"presence", "has(object.metadata) && !has(object.spec.nothing)", true},
		{"one of constants", "!(object.metadata.name in ['x', 'y'])", true},
		{"a part of small params", "object.metadata.name != params.name", true},
		{"the request", "request.operation == 'CREATE' || request.userInfo.username != 'x'", true},
		{"a choice", "object.metadata.name == 'x' ? false : true", true},
		{"it denies", "object.metadata.name == 'x' || false", false},
		{"it has an error", "object.nothing.at.all == 1", false},
		{"two values of the object", "object.metadata == object.metadata", true},
		{"a list of the object", "!('x' in object.metadata)", true},
		{"a loop", "object.spec.containers.all(c, c.image != '')", true},
		{"a regular expression", "!object.metadata.name.matches('(a|b|c)*x')", true},
		{"the length of a text", "size(object.metadata.name) < 1000000", true},
		{"a new text", "object.metadata.name + 'x' != 'x'", true},
		{"a regular expression that is computed", "!object.metadata.name.matches(object.metadata.name + 'x')", false},
		{"a function that may take long", "object.spec.containers.map(c, c.image).distinct().size() > 0", false},
		{"more than at a glance", "object.spec.containers.all(a, object.spec.containers.all(b, [1, 2, 3, 4, 5, 6, 7, 8].all(i, [1, 2, 3, 4, 5, 6, 7, 8].all(j, [1, 2, 3, 4, 5, 6, 7, 8].all(k, [1, 2, 3, 4, 5, 6, 7, 8].all(l, i + j + k + l > 0))))))", false},
		{"the namespace is a fact", "namespaceObject.metadata.name != 'x'", false},
		{"the authorizer is one", "!authorizer.path('/x').check('get').allowed()", false},
		{"a list of values that are computed", "!(object.metadata.name in [object.metadata.name + 'x'])", true},
	} {
		t.Run(row.reason, func(t *testing.T) {
			t.Parallel()
			p, problems := admission.Compile(admission.Code{Params: true, Validations: []admission.Validation{{Expression: row.expression}}})
			if p == nil {
				t.Fatal(problems)
			}
			in := glancedInput(podInput().Object)
			in.Params, in.ParamsSize = map[string]any{"name": "x"}, cel.Size{Total: 8, Longest: 1}
			if _, known := p.Glance(t.Context(), in); known != row.known {
				t.Errorf("known %t (%v)", known, problems)
			}
		})
	}
}

// TestGlanceAtVariables: variables are a part of what takes so long at most as a glance.
func TestGlanceAtVariables(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		reason, variable string
		known            bool
	}{
		{"one that is short", "object.spec.containers.all(c, c.image != '')", true},
		{"one that is not", "[1, 2, 3, 4, 5, 6, 7, 8].all(i, [1, 2, 3, 4, 5, 6, 7, 8].all(j, [1, 2, 3, 4, 5, 6, 7, 8].all(k, [1, 2, 3, 4, 5, 6, 7, 8].all(l, i + j + k + l + size(object.kind) > 0))))", false},
	} {
		p, problems := admission.Compile(admission.Code{
			Variables:   []admission.Named{{Name: "v", Expression: row.variable}},
			Validations: []admission.Validation{{Expression: "variables.v"}},
		})
		if p == nil {
			t.Fatal(problems)
		}
		if _, known := p.Glance(t.Context(), glancedInput(podInput().Object)); known != row.known {
			t.Errorf("%s: known %t (%v)", row.reason, known, problems)
		}
	}
}

// glancedInput is that of a request with an object.
func glancedInput(object map[string]any) *admission.Input {
	in := podInput()
	in.Object, in.Size = object, cel.SizeOf(object)
	return in
}

// TestGlanceAtLargeObjects: what would take long for an object, or with params, is not known at a glance, and the same
// expression is for a small one.
func TestGlanceAtLargeObjects(t *testing.T) {
	t.Parallel()
	long := make([]any, 50_000)
	for i := range long {
		long[i] = map[string]any{"name": "c", "image": strings.Repeat("a", 20)}
	}
	for _, expression := range []string{
		"object.spec.containers.all(c, c.image != '')", "object.spec.containers == params.list || true", "!('x' in object.spec.containers.map(c, c.image))",
		"!object.spec.containers[0].image.matches('(a|b|c)*!')",
	} {
		p, problems := admission.Compile(admission.Code{Params: true, Validations: []admission.Validation{{Expression: expression}}})
		if p == nil {
			t.Fatal(problems)
		}
		in := glancedInput(podInput().Object)
		in.Params, in.ParamsSize = map[string]any{"list": []any{}}, cel.Size{Total: 6, Longest: 1}
		if _, known := p.Glance(t.Context(), in); !known {
			t.Errorf("%s: it is not known", expression)
		}
		in = glancedInput(map[string]any{"spec": map[string]any{"containers": long}})
		in.Params = map[string]any{"list": slices.Clone(long)}
		long[0] = map[string]any{"name": "c", "image": strings.Repeat("a", 1<<20)}
		if _, known := p.Glance(t.Context(), in); known {
			t.Errorf("%s: it is known for an object that is large", expression)
		}
	}
}

// TestChangesBriefly: operations that are written in the expression take the same time for every object.
func TestChangesBriefly(t *testing.T) {
	t.Parallel()
	const adds = `JSONPatch{op: "add", path: "/metadata/labels/x", value: "y"}`
	for _, row := range []struct {
		reason, condition, expression string
		brief                         bool
	}{
		{"an operation", "true", `[` + adds + `]`, true},
		{"several, with values of lists and maps", "true", `[` + adds + `, JSONPatch{op: "replace", path: "/spec", value: {"a": ["b", "c"], "d": ["e"]}}, JSONPatch{op: "remove", path: "/spec/a"}]`, true},
		{"a test", "true", `[JSONPatch{op: "test", path: "/metadata/name", value: "x"}, ` + adds + `]`, true},
		{"a key that is escaped", "true", `[JSONPatch{op: "add", path: "/metadata/labels/" + jsonpatch.escapeKey("a/b"), value: "y"}]`, true},
		{"a choice", "true", `has(object.metadata.labels) ? [` + adds + `] : []`, true},
		{"presence as condition", "!has(object.metadata.labels)", `[` + adds + `]`, true},
		{"a loop as condition", "object.spec.containers.all(c, c.image != '')", `[` + adds + `]`, false},
		{"a fact as condition", "namespaceObject.metadata.name != 'x'", `[` + adds + `]`, false},
		{"a choice by a loop", "true", `object.spec.containers.all(c, c.image != '') ? [` + adds + `] : []`, false},
		{"a copy of a value that is as large as it likes", "true", `[JSONPatch{op: "copy", from: "/spec", path: "/metadata/x"}]`, false},
		{"a move of one", "true", `[JSONPatch{op: "move", from: "/spec", path: "/metadata/x"}]`, false},
		{"an operation that is not known", "true", `[JSONPatch{op: request.operation, path: "/metadata/x"}]`, false},
		{"a value of the object", "true", `[JSONPatch{op: "add", path: "/metadata/x", value: object.spec}]`, false},
		{"a path of the object", "true", `[JSONPatch{op: "remove", path: "/spec/" + object.metadata.name}]`, false},
		{"many", "true", `[` + strings.Repeat(adds+",", 17) + `]`, false},
		{"operations of a loop", "true", `["a"].map(k, JSONPatch{op: "remove", path: "/metadata/" + k})`, false},
		{"it does not compile", "true", `[JSONPatch{op: "add", nothing: 1}]`, false},
	} {
		p, problems := admission.Compile(admission.Code{
			Conditions: []admission.Named{{Name: "c", Expression: row.condition}},
			Mutations:  []admission.Mutation{{Type: admission.JSONPatch, Expression: row.expression}},
		})
		if got := p.ChangesBriefly(); got != row.brief {
			t.Errorf("%s: %t (%v)", row.reason, got, problems)
		}
	}
	p, problems := admission.Compile(admission.Code{Mutations: []admission.Mutation{{Type: admission.ApplyConfiguration, Expression: `Object{}`}}})
	if p.ChangesBriefly() {
		t.Errorf("a configuration is merged into lists, each as long as it likes (%v)", problems)
	}
}

// TestGlanceMeasuresLittle: how large what is read of a large object is takes long to find out, for each policy.
func TestGlanceMeasuresLittle(t *testing.T) {
	t.Parallel()
	const expression = "has(object.kind) || oldObject.list.all(x, oldObject.list.all(y, object.list.a == 1 || object.list.b == 1))"
	p, problems := admission.Compile(admission.Code{Validations: []admission.Validation{{Expression: expression}}})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	list := make([]any, 20_000)
	for i := range list {
		list[i] = map[string]any{"name": "c"}
	}
	in := glancedInput(map[string]any{"kind": "Widget", "list": list})
	in.OldObject, in.Memo = in.Object, &rule.Memo{}
	if _, known := p.Glance(t.Context(), in); known || len(admission.Sizes(in.Memo)) > 0 {
		t.Errorf("known %t, measured %v", known, admission.Sizes(in.Memo))
	}
	if _, err := p.Evaluate(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	sizes := admission.Sizes(in.Memo)
	if whole := sizes[`object["list"]`]; whole.Longest != len(list) || sizes[`object["list" "a"]`] != whole || sizes[`object["list" "b"]`] != whole {
		t.Errorf("paths that lead no further than to the list are not measured as the list: %v", sizes)
	}
}

// TestGlanceTellsNoErrors: errors quote values, each of those that has one, and nobody reads them.
func TestGlanceTellsNoErrors(t *testing.T) { //nolint:paralleltest // It measures the memory that is allocated.
	var code admission.Code
	for i := range 8 {
		code.Conditions = append(code.Conditions, admission.Named{Name: fmt.Sprint("c", i), Expression: fmt.Sprintf("object.metadata[object.long] == %d", i)})
		code.Variables = append(code.Variables, admission.Named{Name: fmt.Sprint("v", i), Expression: "object.metadata[object.long] == 1"})
		code.Validations = append(code.Validations, admission.Validation{Expression: fmt.Sprintf("variables.v%d", i)})
	}
	validated := code
	validated.Conditions = nil
	for _, code := range []admission.Code{code, validated} {
		p, problems := admission.Compile(code)
		if p == nil {
			t.Fatal(problems)
		}
		in := glancedInput(map[string]any{"metadata": map[string]any{}, "long": strings.Repeat("a", 1<<20)})
		in.OldObject = nil
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, known := p.Glance(t.Context(), in)
		runtime.ReadMemStats(&after)
		if allocated := after.TotalAlloc - before.TotalAlloc; known || allocated > 1<<20 {
			t.Errorf("known %t, %d bytes", known, allocated)
		}
	}
}

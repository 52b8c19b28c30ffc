package admission_test

import (
	"strings"
	"testing"

	"github.com/usher-dev/usher/internal/lang/cel"
	"github.com/usher-dev/usher/internal/lang/cel/admission"
)

// TestGlance: what takes the same time for every object is known at a glance, unless it denies.
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
		{"two values of objects, each as large as it likes", "object.metadata == object.metadata", false},
		{"a list of the object", "!('x' in object.metadata)", false},
		{"a loop", "object.spec.containers.all(c, c.image != '')", false},
		{"a regular expression", "!object.metadata.name.matches('(a|b|c)*x')", false},
		{"a text as long as it likes", "size(object.metadata.name) < 1000000", false},
		{"a new text", "object.metadata.name + 'x' != 'x'", false},
		{"the namespace is a fact", "namespaceObject.metadata.name != 'x'", false},
		{"the authorizer is one", "!authorizer.path('/x').check('get').allowed()", false},
		{"a list of values that are computed", "!(object.metadata.name in [object.metadata.name + 'x'])", false},
	} {
		t.Run(row.reason, func(t *testing.T) {
			t.Parallel()
			p, problems := admission.Compile(admission.Code{Params: true, Validations: []admission.Validation{{Expression: row.expression}}})
			if p == nil {
				t.Fatal(problems)
			}
			in := podInput()
			in.Params, in.ParamsSize = map[string]any{"name": "x"}, cel.Size{Total: 8, Longest: 1}
			if _, known := p.Glance(t.Context(), in); known != row.known {
				t.Errorf("known %t (%v)", known, problems)
			}
			in.ParamsSize = cel.Size{Total: 1 << 20, Longest: 1 << 20}
			if _, known := p.Glance(t.Context(), in); known {
				t.Error("it is known with params that are large")
			}
		})
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

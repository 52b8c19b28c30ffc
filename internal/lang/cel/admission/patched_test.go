package admission_test

import (
	"testing"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/lang/cel/admission"
)

// TestReadPathsOfMutations compares what mutations read with what they can change or look at.
func TestReadPathsOfMutations(t *testing.T) {
	t.Parallel()
	everything := []string{""}
	for _, test := range []struct {
		reason, expression string
		// want are JSON pointers.
		want []string
	}{
		{"a constant path", `[JSONPatch{op: "add", path: "/metadata/labels/x", value: "y"}]`, []string{"/metadata/labels/x"}},
		{"keys are escaped", `[JSONPatch{op: "add", path: "/metadata/labels/a~1b", value: "y"}]`, []string{"/metadata/labels/a~1b"}},
		{"constants that are joined", `[JSONPatch{op: "add", path: "/metadata" + "/labels" + "/x", value: "y"}]`, []string{"/metadata/labels/x"}},
		{"any key", `[JSONPatch{op: "add", path: "/metadata/labels/" + jsonpatch.escapeKey("a/b"), value: "y"}]`, []string{"/metadata/labels"}},
		{"the end of a key", `[JSONPatch{op: "add", path: "/metadata/la" + "b" + request.name, value: "y"}]`, []string{"/metadata"}},
		{"any keys in between", `[JSONPatch{op: "add", path: "/spec/a/" + request.name + "/b", value: "y"}]`, []string{"/spec/a"}},
		{"any field", `[JSONPatch{op: "add", path: "/" + request.name, value: "y"}]`, everything},
		{"any path", `[JSONPatch{op: "add", path: request.name, value: "y"}]`, everything},
		{"a path that begins with anything", `[JSONPatch{op: "add", path: request.name + "/metadata/name", value: "y"}]`, everything},
		{"one of two paths", `[JSONPatch{op: "add", path: request.dryRun ? "/a" : "/b", value: "y"}]`, everything},
		{"an optional path", `[JSONPatch{op: "add", ?path: optional.of("/a"), value: "y"}]`, everything},
		{"the root", `[JSONPatch{op: "replace", path: "", value: {}}]`, everything},
		{"a copy", `[JSONPatch{op: "copy", from: "/spec/a", path: "/spec/b"}]`, []string{"/spec/a", "/spec/b"}},
		{"a move from anywhere below", `[JSONPatch{op: "move", from: "/spec/" + request.name, path: "/metadata/b"}]`, []string{"/spec", "/metadata/b"}},
		{"a value of the object", `[JSONPatch{op: "add", path: "/metadata/labels/x", value: object.spec.nodeName}]`, []string{"/metadata/labels/x", "/spec/nodeName"}},
		{"a path of the object", `[JSONPatch{op: "remove", path: "/spec/" + object.metadata.name}]`, []string{"/spec", "/metadata/name"}},
		{"operations of a loop", `["a", "b"].map(k, JSONPatch{op: "remove", path: "/metadata/annotations/" + k})`, []string{"/metadata/annotations"}},
		{"operations of branches", `request.dryRun ? [JSONPatch{op: "remove", path: "/spec/a"}] : [JSONPatch{op: "remove", path: "/spec/b"}]`, []string{"/spec/a", "/spec/b"}},
		{"operations that are chosen from", `[JSONPatch{op: "remove", path: "/spec/a"}, JSONPatch{op: "remove", path: "/spec/b"}].filter(o, o.op == "add")`, []string{"/spec/a", "/spec/b"}},
		{"an operation in the value of another", `[[JSONPatch{op: "remove", path: "/spec/a"}][0]]`, []string{"/spec/a"}},
		{"an element of a list", `[JSONPatch{op: "add", path: "/spec/containers/-", value: {}}]`, []string{"/spec/containers/-"}},
		{"no operations", `[JSONPatch{op: "remove", path: "/spec/a"}].filter(o, false)`, []string{"/spec/a"}},
	} {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			comparePaths(t, admission.Mutation{Type: admission.JSONPatch, Expression: test.expression}, test.want)
		})
	}
	comparePaths(t, admission.Mutation{Type: admission.ApplyConfiguration, Expression: `Object{}`}, everything)
}

func comparePaths(t *testing.T, m admission.Mutation, want []string) {
	t.Helper()
	p, problems := admission.Compile(admission.Code{Mutations: []admission.Mutation{m}})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	var paths usher.Paths
	for _, pointer := range want {
		paths.AddPointer(pointer)
	}
	if object, _ := p.ReadPaths(); !object.Within(&paths) || !paths.Within(object) {
		t.Errorf("%s reads %v, not %q", m.Expression, object, want)
	}
}

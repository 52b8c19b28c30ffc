package patch_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	usher "github.com/usher-dev/usher"
	apply "github.com/usher-dev/usher/internal/jsonpatch"
	"github.com/usher-dev/usher/internal/lang/patch"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/internal/rule/allowance"
)

func tree(t testing.TB, text string) map[string]any {
	t.Helper()
	var value map[string]any
	if err := utiljson.Unmarshal([]byte(text), &value); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return value
}

// merged returns what a merge patch makes of an object, and the operations.
func merged(t testing.TB, program rule.Program, object map[string]any) (map[string]any, usher.Patch) {
	t.Helper()
	out, err := program.Run(t.Context(), &rule.Input{Object: object})
	if err != nil {
		t.Fatal(err)
	}
	result, ops, err := apply.Apply(object, out.Patch)
	if err != nil {
		t.Fatal(err)
	}
	return result, ops
}

func TestMerge(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ reason, object, patch, want string }{
		// The examples of RFC 7386, appendix A, whose documents and patches are objects.
		{"replaces", `{"a":"b"}`, `{"a":"c"}`, `{"a":"c"}`},
		{"adds", `{"a":"b"}`, `{"b":"c"}`, `{"a":"b","b":"c"}`},
		{"removes the only field", `{"a":"b"}`, `{"a":null}`, `{}`},
		{"removes a field", `{"a":"b","b":"c"}`, `{"a":null}`, `{"b":"c"}`},
		{"replaces a list by a text", `{"a":["b"]}`, `{"a":"c"}`, `{"a":"c"}`},
		{"replaces a text by a list", `{"a":"c"}`, `{"a":["b"]}`, `{"a":["b"]}`},
		{"merges objects", `{"a":{"b":"c"}}`, `{"a":{"b":"d","c":null}}`, `{"a":{"b":"d"}}`},
		{"replaces a list of objects", `{"a":[{"b":"c"}]}`, `{"a":[1]}`, `{"a":[1]}`},
		{"keeps null in the object", `{"e":null}`, `{"a":1}`, `{"e":null,"a":1}`},
		{"makes objects without nulls", `{}`, `{"a":{"bb":{"ccc":null}}}`, `{"a":{"bb":{}}}`},
		// More.
		{"removes what is not there", `{"a":1}`, `{"b":null}`, `{"a":1}`},
		{"removes null", `{"a":null}`, `{"a":null}`, `{}`},
		{"an empty object in place of a text", `{"a":"b"}`, `{"a":{}}`, `{"a":{}}`},
		{"an empty object changes no object", `{"a":{"b":1}}`, `{"a":{}}`, `{"a":{"b":1}}`},
		{"nulls in lists stay", `{}`, `{"a":[null,{"b":null}]}`, `{"a":[null,{"b":null}]}`},
		{"keys with slashes and tildes", `{"metadata":{"annotations":{"a/b~c":"1"}}}`, `{"metadata":{"annotations":{"a/b~c":"2","x/y":"3"}}}`, `{"metadata":{"annotations":{"a/b~c":"2","x/y":"3"}}}`},
		{"an empty key", `{"":1}`, `{"":{"":2}}`, `{"":{"":2}}`},
		{"numbers stay what they are", `{"a":1.5,"b":2}`, `{"a":2,"b":2.5}`, `{"a":2,"b":2.5}`},
	} {
		program, problems := patch.Merge([]byte(test.patch))
		if len(problems) > 0 {
			t.Errorf("%s: %v", test.reason, problems)
			continue
		}
		object := tree(t, test.object)
		got, _ := merged(t, program, object)
		if diff := cmp.Diff(tree(t, test.want), got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", test.reason, diff)
		}
		if diff := cmp.Diff(tree(t, test.object), object); diff != "" {
			t.Errorf("%s: the object has changed: -want +got:\n%s", test.reason, diff)
		}
	}
}

// fields are n fields of an object, after another one.
func fields(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,"f%d":1`, i)
	}
	return b.String()
}

// TestMergesShareAnAllowance merges for the policies of a namespace, until the memory for one request is used up.
func TestMergesShareAnAllowance(t *testing.T) {
	t.Parallel()
	name := strings.Repeat("a", 10_000)
	program, problems := patch.Merge([]byte(`{"` + name + `":{"b":0` + fields(90) + "}}"))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	in := &rule.Input{Object: map[string]any{name: map[string]any{}}, Allowance: allowance.Namespace(nil)}
	paths := 0
	for range 100 {
		out, err := program.Run(t.Context(), in)
		if exceeded, ok := errors.AsType[*allowance.ExceededError](err); ok && exceeded.Memory {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		for i := range out.Patch {
			paths += len(out.Patch[i].Path)
		}
	}
	t.Errorf("paths of %d bytes are made for one request", paths)
}

func TestProblemsOfMerge(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ reason, patch, what string }{
		{"a list", `[1]`, "the patch is no map"},
		{"null", `null`, "the patch is no map"},
		{"nothing", `{}`, "the patch is empty"},
		{"no JSON", `{"a"`, "the patch cannot be read"},
		{"a tower", strings.Repeat(`{"a":`, 200) + "1" + strings.Repeat("}", 200), "deeper than 128 fields"},
		{"a long name above many fields", `{"` + strings.Repeat("a", 10_000) + `":{"b":0` + fields(200) + "}}", "more than 1 MiB together"},
	} {
		program, problems := patch.Merge([]byte(test.patch))
		if program != nil || len(problems) != 1 || !strings.Contains(problems[0].What, test.what) || problems[0].Do == "" {
			t.Errorf("%s: %v", test.reason, problems)
		}
	}
}

// TestMergeReadsItsPathsOnly merges into objects without what the program does not read.
func TestMergeReadsItsPathsOnly(t *testing.T) {
	t.Parallel()
	program, _ := patch.Merge([]byte(`{"metadata":{"labels":{"a":"1","b":null}},"spec":{"x":{"y":1}}}`))
	object, _ := program.(rule.Selective).ReadPaths()
	full := usher.TreeObject(tree(t, `{"metadata":{"name":"n","labels":{"a":"0","b":"1","c":"2"}},"spec":{"x":"text","z":1}}`))
	part, err := full.Part(object)
	if err != nil {
		t.Fatal(err)
	}
	whole, err := full.Tree()
	if err != nil {
		t.Fatal(err)
	}
	_, want := merged(t, program, whole)
	_, got := merged(t, program, part)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// FuzzMerge compares with the library that kubectl uses, and applies the operations with it, too.
func FuzzMerge(f *testing.F) {
	for _, seed := range [][2]string{
		{`{"a":{"b":1}}`, `{"a":{"b":null,"c":[null]}}`}, {`{"a":"x"}`, `{"a":{"b":{"c":null}}}`}, {`{"a/b":{"~":1}}`, `{"a/b":{"~":null,"~1":2}}`},
		{`{"":{"":1}}`, `{"":null}`}, {`{"a":[1,2]}`, `{"a":{"0":1}}`},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, object, text string) {
		var before, change map[string]any
		if utiljson.Unmarshal([]byte(object), &before) != nil || utiljson.Unmarshal([]byte(text), &change) != nil || before == nil {
			return
		}
		program, problems := patch.Merge([]byte(text))
		if len(problems) > 0 {
			return
		}
		// Fields that occur twice, and numbers that cannot be kept, are read before.
		object, text = written(t, before), written(t, change)
		want, err := jsonpatch.MergePatch([]byte(object), []byte(text))
		if err != nil {
			return
		}
		got, ops := merged(t, program, before)
		if diff := cmp.Diff(tree(t, string(want)), got); diff != "" {
			t.Errorf("%s with %s: -want +got:\n%s", object, text, diff)
		}
		if len(ops) == 0 {
			return
		}
		decoded, err := jsonpatch.DecodePatch([]byte(written(t, ops)))
		if err != nil {
			t.Fatal(err)
		}
		applied, err := decoded.Apply([]byte(object))
		if err != nil {
			t.Fatalf("%s: %v", written(t, ops), err)
		}
		if diff := cmp.Diff(got, tree(t, string(applied))); diff != "" {
			t.Errorf("the operations lead elsewhere: -want +got:\n%s", diff)
		}
	})
}

func written(t testing.TB, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

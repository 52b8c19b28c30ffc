package jsonpatch_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	k8sjson "k8s.io/apimachinery/pkg/util/json"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/jsonpatch"
)

func TestApply(t *testing.T) {
	t.Parallel()
	tests := []struct {
		reason    string
		tree      string
		patch     string
		want      string
		effective string
	}{
		{
			reason:    "an empty patch changes nothing",
			tree:      `{"a":1}`,
			patch:     `[]`,
			want:      `{"a":1}`,
			effective: `[]`,
		},
		{
			reason:    "add overwrites a key",
			tree:      `{"a":{"b":1}}`,
			patch:     `[{"op":"add","path":"/a/b","value":2}]`,
			want:      `{"a":{"b":2}}`,
			effective: `[{"op":"add","path":"/a/b","value":2}]`,
		},
		{
			reason:    "replace of a missing key is an add",
			tree:      `{"a":{}}`,
			patch:     `[{"op":"replace","path":"/a/b","value":2}]`,
			want:      `{"a":{"b":2}}`,
			effective: `[{"op":"add","path":"/a/b","value":2}]`,
		},
		{
			reason:    "what has no effect is dropped, in maps and for elements",
			tree:      `{"a":{"b":[1,{"c":1.5}]}}`,
			patch:     `[{"op":"add","path":"/a","value":{"b":[1,{"c":1.5}]}},{"op":"replace","path":"/a/b/1","value":{"c":1.5}}]`,
			want:      `{"a":{"b":[1,{"c":1.5}]}}`,
			effective: `[]`,
		},
		{
			reason:    "an insertion has an effect even next to its equal",
			tree:      `{"a":[1]}`,
			patch:     `[{"op":"add","path":"/a/0","value":1}]`,
			want:      `{"a":[1,1]}`,
			effective: `[{"op":"add","path":"/a/0","value":1}]`,
		},
		{
			reason:    "an explicit null is not a missing key",
			tree:      `{"a":{}}`,
			patch:     `[{"op":"add","path":"/a/b","value":null}]`,
			want:      `{"a":{"b":null}}`,
			effective: `[{"op":"add","path":"/a/b","value":null}]`,
		},
		{
			reason:    "negative indices count from the end, on the way and at the end",
			tree:      `{"a":[[1],[2,3]]}`,
			patch:     `[{"op":"remove","path":"/a/-1/-1"},{"op":"add","path":"/a/-2/-1","value":9},{"op":"replace","path":"/a/-1","value":0}]`,
			want:      `{"a":[[1,9],0]}`,
			effective: `[{"op":"remove","path":"/a/1/1"},{"op":"add","path":"/a/0/1","value":9},{"op":"replace","path":"/a/1","value":0}]`,
		},
		{
			reason:    "a dash appends",
			tree:      `{"a":[1]}`,
			patch:     `[{"op":"add","path":"/a/-","value":2},{"op":"add","path":"/a/-","value":3}]`,
			want:      `{"a":[1,2,3]}`,
			effective: `[{"op":"add","path":"/a/-","value":2},{"op":"add","path":"/a/-","value":3}]`,
		},
		{
			reason:    "pointers are unescaped, and escaped again",
			tree:      `{"x/y":{"~1":0}}`,
			patch:     `[{"op":"add","path":"/x~1y/~01","value":1},{"op":"add","path":"/x~1y/~2","value":2}]`,
			want:      `{"x/y":{"~1":1,"~2":2}}`,
			effective: `[{"op":"add","path":"/x~1y/~01","value":1},{"op":"add","path":"/x~1y/~02","value":2}]`,
		},
		{
			reason:    "what stands before the first slash does not count",
			tree:      `{"a":{}}`,
			patch:     `[{"op":"add","path":"x/a/b","value":1}]`,
			want:      `{"a":{"b":1}}`,
			effective: `[{"op":"add","path":"/a/b","value":1}]`,
		},
		{
			reason:    "odd spellings of an index become plain",
			tree:      `{"a":[1,2]}`,
			patch:     `[{"op":"replace","path":"/a/+01","value":3}]`,
			want:      `{"a":[1,3]}`,
			effective: `[{"op":"replace","path":"/a/1","value":3}]`,
		},
		{
			reason:    "the empty key is a key",
			tree:      `{"":{"":1}}`,
			patch:     `[{"op":"replace","path":"//","value":2}]`,
			want:      `{"":{"":2}}`,
			effective: `[{"op":"replace","path":"//","value":2}]`,
		},
		{
			reason:    "tests that pass leave no trace; null tests for absence",
			tree:      `{"a":[{"b":1}]}`,
			patch:     `[{"op":"test","path":"/a/0","value":{"b":1}},{"op":"test","path":"/x","value":null},{"op":"test","path":"","value":{"a":[{"b":1}]}},{"op":"remove","path":"/a"}]`,
			want:      `{}`,
			effective: `[{"op":"remove","path":"/a"}]`,
		},
		{
			reason:    "the whole object can be replaced, and changed afterwards",
			tree:      `{"a":1}`,
			patch:     `[{"op":"add","path":"/c","value":0},{"op":"replace","path":"","value":{"b":{}}},{"op":"add","path":"/b/c","value":1}]`,
			want:      `{"b":{"c":1}}`,
			effective: `[{"op":"add","path":"/c","value":0},{"op":"replace","path":"","value":{"b":{}}},{"op":"add","path":"/b/c","value":1}]`,
		},
		{
			reason:    "operations see what those before did, also inside of added values",
			tree:      `{"a":{"l":[]}}`,
			patch:     `[{"op":"add","path":"/a/l/-","value":{"n":[]}},{"op":"add","path":"/a/l/0/n/-","value":1},{"op":"add","path":"/a/l/0","value":7},{"op":"add","path":"/a/l/1/n/0","value":2}]`,
			want:      `{"a":{"l":[7,{"n":[2,1]}]}}`,
			effective: `[{"op":"add","path":"/a/l/-","value":{"n":[]}},{"op":"add","path":"/a/l/0/n/-","value":1},{"op":"add","path":"/a/l/0","value":7},{"op":"add","path":"/a/l/1/n/0","value":2}]`,
		},
		{
			reason:    "an integer equals a float that is written alike",
			tree:      `{"a":1,"b":1.5}`,
			patch:     `[{"op":"replace","path":"/a","value":1.0},{"op":"replace","path":"/b","value":1}]`,
			want:      `{"a":1,"b":1}`,
			effective: `[{"op":"replace","path":"/b","value":1}]`,
		},
		{
			reason:    "copy and move are what they come to; both places go their own ways afterwards",
			tree:      `{"a":{"b":{"c":1}},"l":[1,2]}`,
			patch:     `[{"op":"add","path":"/a/b/d","value":0},{"op":"copy","from":"/a/b","path":"/x"},{"op":"add","path":"/a/b/c","value":2},{"op":"add","path":"/x/c","value":3},{"op":"move","from":"/l/0","path":"/l/-"},{"op":"move","from":"/a","path":"/y"}]`,
			want:      `{"y":{"b":{"c":2,"d":0}},"x":{"c":3,"d":0},"l":[2,1]}`,
			effective: `[{"op":"add","path":"/a/b/d","value":0},{"op":"add","path":"/x","value":{"c":1,"d":0}},{"op":"add","path":"/a/b/c","value":2},{"op":"add","path":"/x/c","value":3},{"op":"remove","path":"/l/0"},{"op":"add","path":"/l/-","value":1},{"op":"remove","path":"/a"},{"op":"add","path":"/y","value":{"b":{"c":2,"d":0}}}]`,
		},
	}
	for _, test := range tests {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			tree, patch := decodeTree(t, test.tree), decodePatch(t, test.patch)
			got, effective, err := jsonpatch.Apply(tree, patch)
			if err != nil {
				t.Fatalf("Apply: %v", err)
			}
			if diff := cmp.Diff(decodeTree(t, test.want), got); diff != "" {
				t.Errorf("tree (-want +got):\n%s", diff)
			}
			want := decodePatch(t, test.effective)
			if len(want)+len(effective) > 0 {
				if diff := cmp.Diff(want, effective); diff != "" {
					t.Errorf("effective patch (-want +got):\n%s", diff)
				}
			}
			if diff := cmp.Diff(decodeTree(t, test.tree), tree); diff != "" {
				t.Errorf("the input changed (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(decodePatch(t, test.patch), patch); diff != "" {
				t.Errorf("the patch changed (-want +got):\n%s", diff)
			}
		})
	}
}

func TestApplyErrors(t *testing.T) {
	t.Parallel()
	const tree = `{"a":{"n":null,"s":"x"},"l":[1,2]}`
	tests := []struct {
		reason string
		patch  string
		want   string
	}{
		{"a missing parent is not made", `[{"op":"add","path":"/b/c","value":1}]`, `add operation does not apply: doc is missing path: "/b/c": missing value`},
		{"a null parent is missing", `[{"op":"replace","path":"/a/n/c","value":1}]`, `replace operation does not apply: doc is missing path: /a/n/c: missing value`},
		{"a scalar parent is missing", `[{"op":"remove","path":"/a/s/c"}]`, `remove operation does not apply: doc is missing path: "/a/s/c": missing value`},
		{"a parent beyond the array is missing", `[{"op":"test","path":"/l/2/c","value":1}]`, `test operation does not apply: is missing path: /l/2/c: missing value`},
		{"the object itself can only be replaced", `[{"op":"add","path":"","value":{}}]`, `doc is missing path: "": missing value`},
		{"a path without slash leads nowhere", `[{"op":"add","path":"a","value":{}}]`, `doc is missing path: "a": missing value`},
		{"remove of a missing key", `[{"op":"remove","path":"/a/x"}]`, `error in remove for path: '/a/x': Unable to remove nonexistent key: x: missing value`},
		{"remove beyond the array", `[{"op":"remove","path":"/l/2"}]`, `error in remove for path: '/l/2': Unable to access invalid index: 2: invalid index referenced`},
		{"remove before the array", `[{"op":"remove","path":"/l/-3"}]`, `Unable to access invalid index: -3`},
		{"remove of no index", `[{"op":"remove","path":"/l/x"}]`, `error in remove for path: '/l/x': strconv.Atoi`},
		{"add beyond the array", `[{"op":"add","path":"/l/3","value":1}]`, `error in add for path: '/l/3': Unable to access invalid index: 3: invalid index referenced`},
		{"add before the array", `[{"op":"add","path":"/l/-4","value":1}]`, `Unable to access invalid index: -4`},
		{"add at no index", `[{"op":"add","path":"/l/x","value":1}]`, `value was not a proper array index: 'x'`},
		{"an element that does not exist cannot be replaced", `[{"op":"replace","path":"/l/2","value":1}]`, `replace operation does not apply: doc is missing key: /l/2: missing value`},
		{"a dash is not an element", `[{"op":"replace","path":"/l/-","value":1}]`, `doc is missing key: /l/-`},
		{"an object stays one", `[{"op":"replace","path":"","value":[]}]`, `replace operation value must be object`},
		{"a test that fails", `[{"op":"test","path":"/a/s","value":"y"}]`, `testing value /a/s failed: test failed`},
		{"a test of the whole that fails", `[{"op":"test","path":"","value":{}}]`, `testing value  failed: test failed`},
		{"a test beyond the array", `[{"op":"test","path":"/l/2","value":null}]`, `error in test for path: '/l/2'`},
		{"an unknown operation", `[{"op":"merge","path":"/a","value":1}]`, `Unexpected kind: merge`},
		{"no operation", `[{"op":"","path":"/a","value":1}]`, `Unexpected kind: `},
		{"copy has nothing to copy from", `[{"op":"copy","path":"/a"}]`, `copy operation failed to decode from`},
		{"a missing value cannot be copied", `[{"op":"copy","from":"/x","path":"/a/y"}]`, `copy operation does not apply: doc is missing from path: /x: missing value`},
		{"a copy beyond the array", `[{"op":"copy","from":"/l/9","path":"/a/y"}]`, `error in copy for from: '/l/9'`},
		{"a missing value cannot be moved", `[{"op":"move","from":"/a/x","path":"/a/y"}]`, `error in move for path: 'x': Unable to remove nonexistent key: x: missing value`},
		{"a copy to beyond the array", `[{"op":"copy","from":"/a/s","path":"/l/9"}]`, `error while adding value during copy: Unable to access invalid index: 9`},
		{"a move to nowhere", `[{"op":"move","from":"/a/s","path":"/b/c"}]`, `move operation does not apply: doc is missing destination path: /b/c: missing value`},
		{"nothing moves into itself", `[{"op":"move","from":"/a","path":"/a/b"}]`, `move operation does not apply: doc is missing destination path: /a/b: missing value`},
		{"copies that double what is there", `[` + strings.Repeat(`{"op":"copy","from":"/l","path":"/l/-"},`, 40) + `{"op":"remove","path":"/a"}]`, `copy more than 3 MiB`},
		{"a later failure undoes the rest", `[{"op":"add","path":"/z","value":1},{"op":"remove","path":"/y"}]`, `Unable to remove nonexistent key: y`},
	}
	for _, test := range tests {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			in := decodeTree(t, tree)
			got, effective, err := jsonpatch.Apply(in, decodePatch(t, test.patch))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error = %v, want one with %q", err, test.want)
			}
			if got != nil || effective != nil {
				t.Errorf("Apply = %v, %v next to an error", got, effective)
			}
			if diff := cmp.Diff(decodeTree(t, tree), in); diff != "" {
				t.Errorf("the input changed (-want +got):\n%s", diff)
			}
		})
	}
}

func TestApplyShares(t *testing.T) {
	t.Parallel()
	tree := decodeTree(t, `{"a":{"b":{}},"c":{"d":{}}}`)
	got, _, err := jsonpatch.Apply(tree, decodePatch(t, `[{"op":"add","path":"/a/x","value":1},{"op":"add","path":"/a/y","value":1}]`))
	if err != nil {
		t.Fatalf("Apply: %v", err)
	}
	got["c"].(map[string]any)["mark"] = true
	if _, shared := tree["c"].(map[string]any)["mark"]; !shared {
		t.Error("an untouched subtree was copied")
	}
	if _, leaked := tree["a"].(map[string]any)["x"]; leaked {
		t.Error("the change reached the input")
	}
}

func TestEditorDoesNotChangeCopies(t *testing.T) {
	t.Parallel()
	e := jsonpatch.NewEditor(decodeTree(t, `{"a":{"x":{}},"b":{}}`))
	apply := func(op usher.PatchOp) usher.Patch {
		effect, err := e.Append(nil, usher.Patch{op})
		if err != nil {
			t.Fatal(err)
		}
		return effect
	}
	apply(usher.PatchOp{Op: "add", Path: "/a/x/y", Value: "1"})
	copied := apply(usher.PatchOp{Op: "add", Path: "/b/copy", Value: e.Tree()["a"]})
	apply(usher.PatchOp{Op: "add", Path: "/a/x/z", Value: "2"})
	apply(usher.PatchOp{Op: "add", Path: "/b/copy/w", Value: "3"})
	if diff := cmp.Diff(decodeTree(t, `{"a":{"x":{"y":"1","z":"2"}},"b":{"copy":{"x":{"y":"1"},"w":"3"}}}`), e.Tree()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if diff := cmp.Diff(decodePatch(t, `[{"op":"add","path":"/b/copy","value":{"x":{"y":"1"}}}]`), copied); diff != "" {
		t.Errorf("what was said to have happened: -want +got:\n%s", diff)
	}
}

func TestApplyToNothing(t *testing.T) {
	t.Parallel()
	got, _, err := jsonpatch.Apply(nil, usher.Patch{{Op: "add", Path: "/a", Value: int64(1)}})
	if err != nil {
		t.Fatalf("Apply: %v", err)
	}
	if diff := cmp.Diff(map[string]any{"a": int64(1)}, got); diff != "" {
		t.Errorf("tree (-want +got):\n%s", diff)
	}
}

func BenchmarkApply(b *testing.B) {
	tree := decodeTree(b, pod)
	one := usher.Patch{{Op: "replace", Path: "/metadata/annotations/corp.example~1owner", Value: "platform"}}
	five := usher.Patch{
		{Op: "add", Path: "/metadata/labels/tier", Value: "gold"},
		{Op: "add", Path: "/metadata/labels/zone", Value: "eu"},
		{Op: "add", Path: "/spec/containers/0/args/-", Value: "--verbose"},
		{Op: "replace", Path: "/spec/containers/1/image", Value: "proxy:2"},
		{Op: "remove", Path: "/spec/nodeName"},
	}
	none := usher.Patch{{Op: "add", Path: "/metadata/labels/app", Value: "cart"}}
	for name, patch := range map[string]usher.Patch{"one": one, "five": five, "without effect": none} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := jsonpatch.Apply(tree, patch); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

const pod = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"cart","namespace":"shop","labels":{"app":"cart"},
"annotations":{"a":"1","b":"2"}},"spec":{"nodeName":"n1","containers":[{"name":"main","image":"cart:1","args":["serve"]},
{"name":"proxy","image":"proxy:1"}],"tolerations":[{"operator":"Exists"}]}}`

func decodeTree(tb testing.TB, text string) map[string]any {
	tb.Helper()
	var tree map[string]any
	if err := k8sjson.Unmarshal([]byte(text), &tree); err != nil {
		tb.Fatalf("decode %s: %v", text, err)
	}
	return tree
}

func decodePatch(tb testing.TB, text string) usher.Patch {
	tb.Helper()
	var raw []struct {
		Op    string          `json:"op"`
		Path  string          `json:"path"`
		From  string          `json:"from"`
		Value json.RawMessage `json:"value"`
	}
	if err := json.Unmarshal([]byte(text), &raw); err != nil {
		tb.Fatalf("decode %s: %v", text, err)
	}
	patch := make(usher.Patch, len(raw))
	for i, op := range raw {
		patch[i] = usher.PatchOp{Op: op.Op, Path: op.Path, From: op.From}
		if op.Value != nil {
			patch[i].Value = decodeTree(tb, `{"v":`+string(op.Value)+`}`)["v"]
		}
	}
	return patch
}

// TestApplyIsBounded applies operations each of which moves, copies or compares a long list.
func TestApplyIsBounded(t *testing.T) {
	t.Parallel()
	long := make([]any, 100_000)
	for i := range long {
		long[i] = int64(i)
	}
	tree := map[string]any{"list": long, "other": map[string]any{"a": int64(1)}}
	for _, row := range []struct {
		reason string
		ops    []usher.PatchOp
	}{
		{"elements that are moved", []usher.PatchOp{{Op: "add", Path: "/list/0", Value: int64(1)}}},
		{"elements that are removed", []usher.PatchOp{{Op: "remove", Path: "/list/0"}, {Op: "add", Path: "/list/-", Value: int64(1)}}},
		{"lists that are copied since another part is in two places", []usher.PatchOp{{Op: "copy", From: "/other", Path: "/more"}, {Op: "replace", Path: "/list/0", Value: int64(1)}, {Op: "copy", From: "/other", Path: "/more"}, {Op: "replace", Path: "/list/0", Value: int64(2)}}},
		{"lists that are compared", []usher.PatchOp{{Op: "test", Path: "/list", Value: long}}},
	} {
		t.Run(row.reason, func(t *testing.T) {
			t.Parallel()
			var patch usher.Patch
			for range 50_000 {
				patch = append(patch, row.ops...)
			}
			if _, _, err := jsonpatch.Apply(tree, patch); err == nil || !strings.Contains(err.Error(), "too often") {
				t.Errorf("error %v", err)
			}
			if _, _, err := jsonpatch.Apply(tree, patch[:len(row.ops)]); err != nil {
				t.Error(err)
			}
		})
	}
}

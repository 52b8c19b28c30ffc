package usher_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	usher "github.com/usher-dev/usher"
)

func TestRawObject(t *testing.T) {
	t.Parallel()
	tests := []struct {
		reason string
		raw    string
		want   map[string]any
		err    string
	}{
		{"integers stay integers, however large", `{"a":1,"b":[9007199254740993],"c":1.5}`, map[string]any{"a": int64(1), "b": []any{int64(9007199254740993)}, "c": 1.5}, ""},
		{"null is a value", `{"a":null}`, map[string]any{"a": nil}, ""},
		{"the last of equal keys counts", `{"a":1,"a":2}`, map[string]any{"a": int64(2)}, ""},
		{"an empty object is an object", ` {} `, map[string]any{}, ""},
		{"no object", `[1]`, nil, "decode object: "},
		{"cut off", `{"a":1`, nil, "decode object: "},
		{"more than one", `{} {}`, nil, "decode object: "},
		{"what was read before the fault does not count", `{"a":1,"b":x}`, nil, "decode object: "},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			t.Parallel()
			o := usher.RawObject([]byte(tt.raw))
			for range 2 {
				tree, err := o.Tree()
				if diff := cmp.Diff(tt.want, tree); diff != "" {
					t.Errorf("Tree: -want +got:\n%s", diff)
				}
				if (err != nil) != (tt.err != "") || err != nil && !strings.HasPrefix(err.Error(), tt.err) {
					t.Errorf("Tree: error %v, want %q", err, tt.err)
				}
			}
			if raw, err := o.Raw(); err != nil || string(raw) != tt.raw {
				t.Errorf("Raw: %q, %v: not the bytes it came in", raw, err)
			}
		})
	}
}

func TestObjectsThatAreNotThere(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]*usher.Object{
		"nil":         nil,
		"no bytes":    usher.RawObject(nil),
		"white space": usher.RawObject([]byte(" \n")),
		"null":        usher.RawObject([]byte(" null\n")),
		"nil tree":    usher.TreeObject(nil),
	} {
		if o != nil {
			t.Errorf("%s: %v is not nil", name, o)
		}
		if tree, err := o.Tree(); tree != nil || err != nil {
			t.Errorf("%s: Tree is %v, %v", name, tree, err)
		}
		if raw, err := o.Raw(); raw != nil || err != nil {
			t.Errorf("%s: Raw is %q, %v", name, raw, err)
		}
	}
}

func TestTreeObject(t *testing.T) {
	t.Parallel()
	tree := map[string]any{"a": int64(1)}
	o := usher.TreeObject(tree)
	if raw, err := o.Raw(); err != nil || string(raw) != `{"a":1}` {
		t.Errorf("Raw: %s, %v", raw, err)
	}
	if got, err := o.Tree(); err != nil || !cmp.Equal(tree, got) {
		t.Errorf("Tree: %v, %v", got, err)
	}
	if _, err := usher.TreeObject(map[string]any{"a": func() {}}).Raw(); err == nil || !strings.HasPrefix(err.Error(), "encode object: ") {
		t.Errorf("Raw of what is no JSON: error %v", err)
	}
}

// TestDecodedSize has the size of what has been decoded, and the longest list or map.
func TestDecodedSize(t *testing.T) {
	t.Parallel()
	const text = `{"a":[1,2,3],"b":{"c":{"d":1,"e":2},"f":[[1,2,3,4,5]]}}`
	paths := func(path ...string) *usher.Paths {
		p := &usher.Paths{}
		p.Add(path...)
		return p
	}
	for _, row := range []struct {
		reason         string
		object         *usher.Object
		decoded        []*usher.Paths
		total, longest int
	}{
		{"nothing", nil, nil, 0, 0},
		{"nothing is decoded", usher.RawObject([]byte(text)), nil, 0, 0},
		{"a map", usher.RawObject([]byte(text)), []*usher.Paths{paths("b", "c")}, 13, 2},
		{"a part that is decoded later", usher.RawObject([]byte(text)), []*usher.Paths{paths("b", "c"), paths("a")}, 13, 3},
		{"a shorter part that is decoded later", usher.RawObject([]byte(text)), []*usher.Paths{paths("a"), paths("b", "c")}, 13, 3},
		{"all", usher.RawObject([]byte(text)), []*usher.Paths{usher.AllPaths()}, 37, 5},
		{"a tree", usher.TreeObject(map[string]any{"a": []any{nil, nil, map[string]any{"b": []any{1, 2, 3, 4}}}}), nil, 21, 4},
	} {
		for _, p := range row.decoded {
			if _, err := row.object.Part(p); err != nil {
				t.Fatal(err)
			}
		}
		if total, longest := row.object.DecodedSize(); total != row.total || longest != row.longest {
			t.Errorf("%s: %d and %d, expected %d and %d", row.reason, total, longest, row.total, row.longest)
		}
	}
}

// TestPartOfDecoded decodes an object once if all of it is needed.
func TestPartOfDecoded(t *testing.T) {
	t.Parallel()
	o := usher.RawObject([]byte(`{"a":1,"b":{"c":2}}`))
	paths := &usher.Paths{}
	paths.Add("a")
	if part, err := o.Part(paths); err != nil || len(part) != 1 {
		t.Errorf("a part: %v, %v", part, err)
	}
	tree, err := o.Tree()
	if err != nil {
		t.Fatal(err)
	}
	part, err := o.Part(paths)
	if err != nil {
		t.Fatal(err)
	}
	if reflect.ValueOf(part).Pointer() != reflect.ValueOf(tree).Pointer() {
		t.Errorf("the part is decoded again: %v", part)
	}
}

func TestObjectsAreSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	for _, o := range []*usher.Object{
		usher.RawObject([]byte(`{"a":{"b":1}}`)),
		usher.TreeObject(map[string]any{"a": map[string]any{"b": int64(1)}}),
	} {
		var done sync.WaitGroup
		for range 8 {
			done.Go(func() {
				raw, rawErr := o.Raw()
				tree, treeErr := o.Tree()
				if rawErr != nil || treeErr != nil || len(raw) == 0 || len(tree) != 1 {
					t.Errorf("Raw %q, %v; Tree %v, %v", raw, rawErr, tree, treeErr)
				}
			})
		}
		done.Wait()
	}
}

func TestSubject(t *testing.T) {
	t.Parallel()
	object, old := usher.TreeObject(map[string]any{"new": true}), usher.TreeObject(map[string]any{"new": false})
	tests := []struct {
		reason  string
		request usher.Request
		want    *usher.Object
	}{
		{"create", usher.Request{Operation: usher.Create, Object: object}, object},
		{"update", usher.Request{Operation: usher.Update, Object: object, OldObject: old}, object},
		{"delete", usher.Request{Operation: usher.Delete, OldObject: old}, old},
		{"neither", usher.Request{Operation: usher.Connect}, nil},
	}
	for _, tt := range tests {
		if got := tt.request.Target(); got != tt.want {
			t.Errorf("%s: Subject is %p, want %p", tt.reason, got, tt.want)
		}
	}
}

func BenchmarkTree(b *testing.B) {
	raw, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Pod",
		"metadata": map[string]any{"name": "cart", "namespace": "shop", "labels": map[string]any{"app": "cart", "tier": "gold"}},
		"spec":     map[string]any{"containers": []any{map[string]any{"name": "main", "image": "cart:1", "ports": []any{map[string]any{"containerPort": 80}}}}},
	})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := usher.RawObject(raw).Tree(); err != nil {
			b.Fatal(err)
		}
	}
}

func TestObjectName(t *testing.T) {
	t.Parallel()
	object := func(text string) *usher.Object { return usher.RawObject([]byte(text)) }
	for _, row := range []struct {
		reason  string
		request usher.Request
		want    string
	}{
		{"the request has it", usher.Request{Operation: usher.Delete, Name: "a", OldObject: object(`{"metadata":{"name":"b"}}`)}, "a"},
		{"one of a collection", usher.Request{Operation: usher.Delete, OldObject: object(`{"metadata":{"name":"b"}}`)}, "b"},
		{"it is not generated yet", usher.Request{Operation: usher.Create, Object: object(`{"metadata":{"generateName":"b"}}`)}, ""},
		{"an old server sends no object", usher.Request{Operation: usher.Delete}, ""},
		{"no name", usher.Request{Operation: usher.Delete, OldObject: object(`{"metadata":{"name":1}}`)}, ""},
		{"no object", usher.Request{Operation: usher.Delete, OldObject: object(`[`)}, ""},
	} {
		if got := row.request.ObjectName(); got != row.want {
			t.Errorf("%s: %q instead of %q", row.reason, got, row.want)
		}
	}
}

func TestInto(t *testing.T) {
	t.Parallel()
	type target struct {
		Name  string `json:"name"`
		Count int64  `json:"count"`
		Any   any    `json:"any"`
	}
	tests := []struct {
		reason string
		object *usher.Object
		want   target
		err    string
	}{
		{"bytes", usher.RawObject([]byte(`{"name":"a","count":9007199254740993,"any":1,"more":2}`)), target{"a", 9007199254740993, int64(1)}, ""},
		{"a tree", usher.TreeObject(map[string]any{"name": "a", "any": 0.5}), target{"a", 0, 0.5}, ""},
		{"other letters are another name", usher.RawObject([]byte(`{"NAME":"a"}`)), target{}, ""},
		{"another type", usher.RawObject([]byte(`{"name":7}`)), target{}, "decode object: json: cannot unmarshal number into Go struct field target.name of type string"},
		{"no object", nil, target{}, "decode object: the request has none"},
		{"no JSON", usher.TreeObject(map[string]any{"name": func() {}}), target{}, "encode object: json: unsupported type: func()"},
	}
	for _, test := range tests {
		var got target
		err := test.object.Into(&got)
		if text := fmt.Sprint(err); err != nil && text != test.err || err == nil && test.err != "" {
			t.Errorf("%s: error %v, want %s", test.reason, err, test.err)
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", test.reason, diff)
		}
	}
}

func TestAppendPart(t *testing.T) {
	t.Parallel()
	paths := &usher.Paths{}
	paths.Add("metadata", "labels")
	paths.Add("spec", "replicas")
	const text = `{"metadata": {"name": "web", "labels": {"b": "1", "a": "2"}}, "spec": {"replicas": 1.50, "paused": true}}`
	for _, row := range []struct {
		reason string
		object *usher.Object
		want   string
	}{
		{"the text of values is as it came", usher.RawObject([]byte(text)), `> {"metadata":{"labels":{"b": "1", "a": "2"}},"spec":{"replicas":1.50}}`},
		{"a tree", usher.TreeObject(map[string]any{"spec": map[string]any{"replicas": int64(2), "paused": true}}), `> {"spec":{"replicas":2}}`},
	} {
		got, err := row.object.AppendPart([]byte("> "), paths)
		if err != nil || string(got) != row.want {
			t.Errorf("%s: %s, %v; want %s", row.reason, got, err, row.want)
		}
	}
	for reason, object := range map[string]*usher.Object{"no object": nil, "no JSON": usher.RawObject([]byte(`{"a"}`))} {
		if got, err := object.AppendPart([]byte("> "), paths); err == nil || string(got) != "> " {
			t.Errorf("%s: %s, %v", reason, got, err)
		}
	}
}

package jsontree_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	reference "k8s.io/apimachinery/pkg/util/json"

	"github.com/usher-dev/usher/internal/jsontree"
)

// texts are what decoders stumble over.
var texts = []string{
	`{}`, ` { } `, `{"a":1}`, `{"a":{"b":{"c":[1,2,{"d":null}]}}}`,
	`{"a":1,"a":{"b":2},"a":{"c":3}}`, `{"a":{"b":1},"a":{"c":2}}`, `{"a":{},"b":[],"c":{},"d":[[],{}]}`,
	`{"i":9223372036854775807,"j":9223372036854775808,"k":-9223372036854775808,"l":-0,"m":0.0,"n":1e2,"o":1E+2,"p":1.5e-3,"q":-0.0}`,
	`{"a":1e400}`, `{"a":-1e400}`, `{"a":1e-400}`, `{"a":[1e400]}`, `{"a":` + strings.Repeat("9", 400) + `}`, `{"a":` + strings.Repeat("9", 300) + `}`,
	`{"a":01}`, `{"a":-}`, `{"a":1.}`, `{"a":.5}`, `{"a":+1}`, `{"a":1e}`, `{"a":0x1}`, `{"a":NaN}`, `{"a":tru}`, `{"a":nulls}`, `{"a":truefalse}`,
	"{\"a\":\"\xff\xfe\",\"\xff\":1}", "{\"a\":\"\xed\xa0\x80\"}", "{\"ä€😀\":\"ä€😀\"}", "{\"a\":\"\xe2\x82\"}",
	`{"a":"\"\\\/\b\f\n\r\t\u0041\u00e4\u20ac"}`, `{"\u0061":1,"a":2}`, `{"a":"\ud83d\ude00"}`, `{"a":"\ud83d"}`, `{"a":"\ud83dx"}`, `{"a":"\ud83d\u0041"}`,
	`{"a":"\ude00\ud83d"}`, `{"a":"\ud83d\ud83d\ude00"}`, `{"a":"\u12"}`, `{"a":"\x"}`, `{"a":"\'"}`, `{"a":"\U0041"}`, `{"a":"\`, `{"a":"\u004`,
	"{\"a\":\"\n\"}", "{\"a\":\"\x00\"}", "{\"a\":\"\x7f\"}", "{\"a\":\"\x1f\"}", "{\"a\":\"12345678\x1f\"}", "{\"a\":\"1234567\x80\"}",
	`{"a":1`, `{"a":1,}`, `{"a":1,,"b":2}`, `{"a" 1}`, `{"a":}`, `{a:1}`, `{"a":[1,]}`, `{"a":[,1]}`, `{"a":[1 2]}`, `{"a":1}}`, `{"a":1} x`, `{"a":[1}`, `{"a":{"b":1]}`,
	``, ` `, `null`, `true`, `1`, `"a"`, `[]`, `[{"a":1}]`, `nul`, `{`, `[`, `"`, `}`, `{,}`, `{"a"}`, "\ufeff{}", "{\"a\":1}\x00", "\x0b{}",
	`{"a":` + strings.Repeat("[", 20) + strings.Repeat("]", 20) + `}`,
	`{"a":[{"a":1,"b":{"c":2}},{"b":3}, 4 ,null,[{"a":5,"b":6},7],[]]}`, `{"a":[{"a":1},]}`, `{"a":[{"a":1}`, `{"a":{"a":1,"b":[{"c":2}]}}`,
	`{"metadata":{"name":"n","labels":{"x":"y"},"other":{"deep":[{"a":1}]}},"spec":{"list":[{"a":1,"b":2}],"n":null}}`,
	`{"metadata":[1,2],"spec":"x"}`, `{"metadata":null}`, `{"metadata":{"labels":null}}`, `{"metadata":{"labels":{"a":1}},"metadata":{"name":"n"}}`,
}

func TestDecode(t *testing.T) {
	t.Parallel()
	for _, text := range texts {
		compare(t, []byte(text))
	}
	files, err := filepath.Glob("../../door/admission/testdata/reviews/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d reviews, %v", len(files), err)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		compare(t, content)
		var compact bytes.Buffer
		if err := json.Compact(&compact, content); err != nil {
			t.Fatal(err)
		}
		compare(t, compact.Bytes())
	}
}

func TestDepth(t *testing.T) {
	t.Parallel()
	for _, depth := range []int{999, 9999, 10000, 10001} {
		for _, pair := range []string{"[]", `{"a":`} {
			open, shut := pair[:1], "]"
			if pair != "[]" {
				open, shut = pair, "}"
			}
			inside := strings.Repeat(open, depth-1)
			if pair != "[]" {
				inside += "1"
			}
			compare(t, []byte(`{"a":`+inside+strings.Repeat(shut, depth-1)+`}`))
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, text := range texts {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) { compare(t, data) })
}

// selections are some selections, with their paths.
var selections = [][][]string{
	{}, {{}}, {{"a"}}, {{"a", "b"}}, {{"a", "b", "c"}, {"b"}}, {{"metadata", "name"}, {"metadata", "labels"}}, {{"metadata", "labels", "x"}, {"spec", "n"}},
	{{"a", jsontree.Element, "b"}}, {{"a", jsontree.Element, "a"}, {"a", jsontree.Presence}}, {{"a", jsontree.Element, jsontree.Element, "a"}}, {{"a", jsontree.Element}},
	{{"a", jsontree.Element, "a"}, {"a", "b"}}, {{"spec", "list", jsontree.Element, "a"}, {"metadata", "other", "deep", jsontree.Element, jsontree.Presence}},
	{{"a", "b"}, {"a"}}, {{"a"}, {"a", "b"}}, {{"request", "object", "metadata", "labels"}, {"request", "uid"}, {"request", "object", "spec", "containers", "0", "image"}},
}

// compare decodes data in every way and compares what comes out with what Kubernetes makes
// of it.
func compare(t *testing.T, data []byte) {
	t.Helper()
	before := bytes.Clone(data)
	want := map[string]any{}
	wantErr := reference.Unmarshal(data, &want)
	got, err := jsontree.Decode(data)
	// The reference takes null for a nil map; it is no object.
	null := wantErr == nil && want == nil
	if (err != nil) != (wantErr != nil || null) {
		t.Fatalf("%.200q: error %v, reference %v", data, err, wantErr)
	}
	for _, paths := range selections {
		selection := &jsontree.Paths{}
		for _, path := range paths {
			selection.Add(path...)
		}
		part, partErr := jsontree.Select(data, selection)
		if (partErr != nil) != (err != nil) {
			t.Fatalf("%.200q: selecting %q gives error %v, decoding all %v", data, paths, partErr, err)
		}
		text, textErr := jsontree.AppendPart([]byte("before"), data, selection, jsontree.SkipIndex{})
		if (textErr != nil) != (err != nil) {
			t.Fatalf("%.200q: the text of %q gives error %v, decoding all %v", data, paths, textErr, err)
		}
		if err != nil {
			continue
		}
		if end, sound, err := jsontree.Check(data, 0, 10000); err != nil || !sound || len(bytes.TrimSpace(data[end:])) > 0 {
			t.Fatalf("%.200q: ends at %d, sound %t, %v", data, end, sound, err)
		}
		// What lies before a value does not count.
		end, skipIndex, err := jsontree.Prescan(append([]byte("{}["), data...), 3, 10000, nil)
		if err != nil || !skipIndex.Sound() || len(bytes.TrimSpace(data[end-3:])) > 0 {
			t.Fatalf("%.200q: surveyed, it ends at %d, %+v, %v", data, end-3, skipIndex, err)
		}
		again, size, err := jsontree.SelectPrescanned(data, selection, skipIndex)
		if err != nil || !same(part, again) {
			t.Fatalf("%.200q: selecting %q unchecked gives %v, %v", data, paths, again, err)
		}
		exactly := jsontree.SizeOf(again)
		if size.Total < exactly.Total || size.Longest < exactly.Longest {
			t.Fatalf("%.200q: selecting %q gives the size %+v, and says %+v", data, paths, exactly, size)
		}
		if again, err := jsontree.AppendPart([]byte("before"), data, selection, skipIndex); err != nil || !bytes.Equal(text, again) {
			t.Fatalf("%.200q: the text of %q unchecked is %.200q, %v; checked, it is %.200q", data, paths, again, err, text)
		}
		if again, err := jsontree.Decode(bytes.TrimPrefix(text, []byte("before"))); err != nil || !same(part, again) {
			t.Fatalf("%.200q: the text of %q is %.200q, %v", data, paths, text, err)
		}
		if pruned := prune(want, paths); !same(pruned, part) {
			t.Fatalf("%.200q: selecting %q: -want +got:\n%s", data, paths, cmp.Diff(pruned, part))
		}
	}
	if err != nil {
		return
	}
	if !same(want, got) {
		t.Fatalf("%.200q: -reference +got:\n%s", data, cmp.Diff(want, got))
	}
	if !bytes.Equal(before, data) {
		t.Fatalf("%.200q was changed to %.200q", before, data)
	}
}

// same reports whether two trees are the same, also in the types and signs of numbers.
func same(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		return ok && maps.EqualFunc(a, b, same)
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, same)
	case float64:
		b, ok := b.(float64)
		return ok && math.Float64bits(a) == math.Float64bits(b)
	}
	return a == b
}

// prune is what Select should return, the obvious way.
func prune(tree map[string]any, paths [][]string) map[string]any {
	return pruned(tree, paths).(map[string]any)
}

func pruned(value any, paths [][]string) any {
	fields, elements := map[string][][]string{}, [][]string{}
	for _, path := range paths {
		switch {
		case len(path) == 0:
			return value
		case path[0] == jsontree.Element:
			elements = append(elements, path[1:])
		default:
			fields[path[0]] = append(fields[path[0]], path[1:])
		}
	}
	switch value := value.(type) {
	case map[string]any:
		if len(elements) > 0 {
			return value
		}
		part := map[string]any{}
		for key, rest := range fields {
			if inside, exists := value[key]; exists {
				part[key] = pruned(inside, rest)
			}
		}
		return part
	case []any:
		delete(fields, jsontree.Presence)
		if len(elements) == 0 || len(fields) > 0 {
			return value
		}
		part := make([]any, len(value))
		for i := range value {
			part[i] = pruned(value[i], elements)
		}
		return part
	}
	return value
}

// many is an object with so many fields.
func many(fields int) map[string]any {
	object := map[string]any{}
	for i := range fields {
		object[fmt.Sprint(i)] = int64(i)
	}
	return object
}

func TestAppend(t *testing.T) {
	t.Parallel()
	for _, value := range []any{
		nil, true, false, "", "plain /-_.:", `"\`, "<&>", "ä\u2028\xff\x7f\x00\n", int64(-5), int64(math.MaxInt64), 0.1, 1.0, 1e21, math.Copysign(0, -1), 7, uint8(3),
		[]any{}, []any(nil), []any{int64(1), "a", []any{nil}}, map[string]any{}, map[string]any(nil), map[string]any{"b": "<", "a": []any{1.5}},
		map[string]any{"ä": nil, "<": int64(1), "a\"": map[string]any{"b": false, "a": map[string]any(nil)}, "\xff": "", "": "x"}, many(16), many(17),
		[]string{"x"}, json.RawMessage(`{"a": 1}`),
	} {
		want, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		got, err := jsontree.Append([]byte("x"), value)
		if string(got) != "x"+string(want) || err != nil {
			t.Errorf("Append(%#v) = %s, %v; json.Marshal gives %s", value, got, err, want)
		}
	}
	if _, err := jsontree.Append(nil, []any{map[string]any{"a": math.NaN()}}); err == nil {
		t.Error("NaN is encoded")
	}
}

func TestCovers(t *testing.T) {
	t.Parallel()
	w := &jsontree.Paths{}
	w.Add("metadata", "labels")
	w.Add("kind")
	for _, row := range []struct {
		path []string
		want bool
	}{
		{[]string{"metadata", "labels"}, true},
		{[]string{"metadata", "labels", "x"}, true},
		{[]string{"kind"}, true},
		{[]string{"metadata"}, false},
		{[]string{"metadata", "name"}, false},
		{[]string{}, false},
		{[]string{"spec"}, false},
	} {
		if got := w.Covers(row.path...); got != row.want {
			t.Errorf("Covers(%q) = %t", row.path, got)
		}
	}
	w.AddPointer("/metadata/annotations/a~1b~0c/x")
	for pointer, want := range map[string]bool{
		"/metadata/annotations/a~1b~0c/x": true, "/metadata/annotations/a~1b~0c": false, "/metadata/annotations/a/b": false,
		"/metadata/labels/x": true, "/metadata/labels": true, "/kind": true, "ignored/kind": true, "kind": false, "": false, "/": false,
	} {
		if got := w.CoversPointer(pointer); got != want {
			t.Errorf("CoversPointer(%q) = %t", pointer, got)
		}
	}
	if !jsontree.All().Covers() || (*jsontree.Paths)(nil).Covers("a") {
		t.Error("all covers everything, nil nothing")
	}
}

func TestMerge(t *testing.T) {
	t.Parallel()
	paths := func(texts ...string) *jsontree.Paths {
		p := &jsontree.Paths{}
		for _, text := range texts {
			p.Add(strings.Split(text, ".")...)
		}
		return p
	}
	for _, row := range []struct {
		a, b   *jsontree.Paths
		covers []string
		not    []string
	}{
		{paths("a.b"), paths("a.c", "d"), []string{"a.b", "a.c", "d.x"}, []string{"a", "a.d"}},
		{paths("a.b.c"), paths("a.b"), []string{"a.b", "a.b.c"}, []string{"a"}},
		{paths("a"), jsontree.All(), []string{"a", "z"}, nil},
		{paths("a." + jsontree.Element + ".b"), paths("a."+jsontree.Element+".c", "d"), []string{"d"}, []string{"a", "a.b", "a.0.b"}},
		{paths("a." + jsontree.Element + ".b"), paths("a"), []string{"a", "a.0.b"}, nil},
		{paths("a"), nil, []string{"a"}, []string{"b"}},
		{paths("a"), &jsontree.Paths{}, []string{"a"}, []string{"b"}},
	} {
		ab, ba := row.a.Clone(), row.b.Clone()
		ab.Merge(row.b)
		ba.Merge(row.a)
		for _, union := range []*jsontree.Paths{ab, ba} {
			for _, path := range row.covers {
				if !union.Covers(strings.Split(path, ".")...) {
					t.Errorf("the union of %v and %v does not cover %s", row.a, row.b, path)
				}
			}
			for _, path := range row.not {
				if union.Covers(strings.Split(path, ".")...) {
					t.Errorf("the union of %v and %v covers %s", row.a, row.b, path)
				}
			}
			if !row.a.Within(union) || !row.b.Within(union) {
				t.Errorf("%v or %v is not within the union", row.a, row.b)
			}
		}
	}
	shared, other := paths("a.x"), paths("a.y")
	clone := shared.Clone()
	clone.Merge(other)
	clone.Add("a", "z")
	if shared.Covers("a", "y") || other.Covers("a", "x") || other.Covers("a", "z") {
		t.Error("merging changes what is merged")
	}
}

func benchmarkPod(b *testing.B) []byte {
	b.Helper()
	content, err := os.ReadFile("../../door/admission/testdata/reviews/v1-create-pods.json")
	if err != nil {
		b.Fatal(err)
	}
	var review struct {
		Request struct {
			Object json.RawMessage `json:"object"`
		} `json:"request"`
	}
	if err := json.Unmarshal(content, &review); err != nil {
		b.Fatal(err)
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, review.Request.Object); err != nil {
		b.Fatal(err)
	}
	return compact.Bytes()
}

func BenchmarkDecode(b *testing.B) {
	pod := benchmarkPod(b)
	head := &jsontree.Paths{}
	for _, path := range [][]string{{"apiVersion"}, {"kind"}, {"metadata", "name"}, {"metadata", "namespace"}, {"metadata", "labels"}} {
		head.Add(path...)
	}
	_, skipIndex, err := jsontree.Prescan(pod, 0, 1000, nil)
	if err != nil {
		b.Fatal(err)
	}
	for _, bench := range []struct {
		name   string
		decode func() (map[string]any, error)
	}{
		{"all", func() (map[string]any, error) { return jsontree.Decode(pod) }},
		{"head", func() (map[string]any, error) { return jsontree.Select(pod, head) }},
		{"head of surveyed", func() (map[string]any, error) {
			tree, _, err := jsontree.SelectPrescanned(pod, head, skipIndex)
			return tree, err
		}},
		{"check", func() (map[string]any, error) {
			_, _, err := jsontree.Check(pod, 0, 1000)
			return nil, err
		}},
		{"reference", func() (map[string]any, error) {
			tree := map[string]any{}
			return tree, reference.Unmarshal(pod, &tree)
		}},
		{"survey", func() (map[string]any, error) {
			_, _, err := jsontree.Prescan(pod, 0, 1000, nil)
			return nil, err
		}},
	} {
		b.Run(bench.name, func(b *testing.B) {
			b.SetBytes(int64(len(pod)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := bench.decode(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

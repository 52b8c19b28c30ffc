package reference_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/usher-dev/usher/internal/lang/reference"
)

func object() map[string]any {
	return map[string]any{
		"kind": "Pod",
		"metadata": map[string]any{
			"name":      "cart",
			"namespace": "shop",
			"labels": map[string]any{
				"team":           "blue",
				"team.io":        "red",
				"team-name.io":   "green",
				"example.com/id": "7",
				"a~b":            "tilde",
				"12":             "digits",
			},
		},
		"spec": map[string]any{
			"affinity":   nil,
			"replicas":   int64(3),
			"nested":     map[string]any{"a": map[string]any{"b": "levels"}, "c.d": map[string]any{"e": "key"}, "c": map[string]any{"d": map[string]any{"e": "levels", "f": "levels"}}},
			"containers": []any{map[string]any{"image": "cart:1"}, map[string]any{"image": "proxy:2"}},
			"_hidden":    "underscore",
			"if":         "keyword",
		},
	}
}

func TestPathValue(t *testing.T) {
	t.Parallel()
	tests := []struct {
		path   string
		want   any
		ok     bool
		expr   string
		reason string
	}{
		{"/metadata/labels/team", "blue", true, `object.metadata.labels.team`, "segments are keys"},
		{"metadata/labels/team/", "blue", true, `object.metadata.labels.team`, "slashes around do not count"},
		{"/spec/containers/1/image", "proxy:2", true, `object.spec.containers[1].image`, "digits are an index"},
		{"/spec/containers[1]/image", "proxy:2", true, `object.spec.containers[1].image`, "an index may stand in the segment: it was pasted into CUE"},
		{"/metadata/labels/12", nil, false, `object.metadata.labels[12]`, "digits are an index, whatever they lead into"},
		{`/metadata/labels/"12"`, "digits", true, `object.metadata.labels["12"]`, "a quoted segment is a key"},
		{"/metadata/labels/team-name.io", "green", true, `object.metadata.labels["team-name.io"]`, "a dash makes a key of it"},
		{`/metadata/labels/"team.io"`, "red", true, `object.metadata.labels["team.io"]`, "a quoted segment is a key"},
		{`/metadata/labels/"example.com/id"`, "7", true, `object.metadata.labels["example.com/id"]`, "quotes protect a slash"},
		{"/metadata/labels/team.io", "red", true, `(*object.metadata.labels["team.io"] | object.metadata.labels.team.io)`, "a key with dots is found without quotes"},
		{"/spec/nested/a.b", "levels", true, `(*object.spec.nested["a.b"] | object.spec.nested.a.b)`, "without such a key, dots are levels"},
		{"/spec/nested/c.d/e", "key", true, `(*object.spec.nested["c.d"].e | object.spec.nested.c.d.e)`, "the key is tried first"},
		{"/spec/nested/c.d/f", "levels", true, `(*object.spec.nested["c.d"].f | object.spec.nested.c.d.f)`, "the whole path decides"},
		{"/metadata/labels/example.com~1id", "7", true, `object.metadata.labels["example.com/id"]`, "~1 is a slash"},
		{"/metadata/labels/a~0b", "tilde", true, `object.metadata.labels["a~b"]`, "~0 is a tilde"},
		{"/spec/_hidden", "underscore", true, `object.spec["_hidden"]`, "_hidden is hidden in CUE"},
		{"/spec/if", "keyword", true, `object.spec["if"]`, "a keyword is not a name in CUE"},
		{"/spec/affinity", nil, true, `object.spec.affinity`, "an explicit null exists"},
		{"/spec/affinity/nodeAffinity", nil, false, `object.spec.affinity.nodeAffinity`, "null has no fields"},
		{"/spec/replicas/x", nil, false, `object.spec.replicas.x`, "a number has no fields"},
		{"/spec/containers/2", nil, false, `object.spec.containers[2]`, "out of range"},
		{"/status/phase", nil, false, `object.status.phase`, "a missing parent"},
		{`metadata.labels["team.io"]`, "red", true, `object.metadata.labels["team.io"]`, "without a slash it is CUE"},
		{`metadata.labels."team.io"`, "red", true, `object.metadata.labels["team.io"]`, "a quoted selector"},
		{`spec.containers[0].image`, "cart:1", true, `object.spec.containers[0].image`, "an index in CUE"},
		{`kind`, "Pod", true, `object.kind`, "one name"},
		{`metadata.labels.team.io`, nil, false, `object.metadata.labels.team.io`, "in CUE dots are always levels"},
		{`"kind"`, "Pod", true, `object.kind`, "a quoted name"},
	}
	for _, test := range tests {
		path, err := reference.ParsePath(test.path)
		if err != nil {
			t.Errorf("ParsePath(%s): %v", test.path, err)
			continue
		}
		got, ok := path.Value(object())
		if ok != test.ok || !cmp.Equal(got, test.want) {
			t.Errorf("%s leads to %v, %v, want %v, %v: %s", test.path, got, ok, test.want, test.ok, test.reason)
		}
		if got := path.Expr("object"); got != test.expr {
			t.Errorf("%s is %s in CUE, want %s: %s", test.path, got, test.expr, test.reason)
		}
	}
}

func TestParsePathRefuses(t *testing.T) {
	t.Parallel()
	tests := []struct{ path, reason string }{
		{"", "there is nothing to follow"},
		{"/", "there is nothing to follow"},
		{"  ", "there is nothing to follow"},
		{"/a//b", "an empty segment is no key"},
		{`/a/"b`, "the quote does not end"},
		{`/a/"b"c`, "something follows the quote"},
		{"/a/99999999999999999999", "no list is that long"},
		{"/a.b/c.d/e.f/g.h", "sixteen meanings are too many"},
		{"a}, b: {", "the braces do not match: it would end the struct that it is pasted into"},
		{"a, b", "it would begin another field"},
		{"a: b", "it would be a field"},
		{"a\nb: 1", "it would begin another field"},
		{"a // b", "it holds a slash, so it is segments with spaces; the empty one between is not"},
		{"[0]", "an index needs something before it"},
		{".a", "it does not begin with a name"},
		{`a["b`, "the string does not end"},
	}
	for _, test := range tests {
		if path, err := reference.ParsePath(test.path); err == nil {
			t.Errorf("ParsePath(%q) = %s, want an error: %s", test.path, path.Expr("object"), test.reason)
		}
	}
}

func BenchmarkPathValue(b *testing.B) {
	path, err := reference.ParsePath("/metadata/labels/team.io")
	if err != nil {
		b.Fatal(err)
	}
	root := any(object())
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := path.Value(root); !ok {
			b.Fatal("not found")
		}
	}
}

// FuzzParsePath finds paths that panic, and paths whose CUE would leave the expression
// that it is pasted into.
func FuzzParsePath(f *testing.F) {
	for _, seed := range []string{"/a/b.c/0", `a["b"].c[0]`, `/"a/b"/c~1d`, "a+b", `a[len("x)")]`, "/a\n/b", `"\(x)"`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		path, err := reference.ParsePath(text)
		if err != nil {
			return
		}
		path.Value(object())
		for _, r := range path.Expr("object") {
			if r == '\n' || r == '\r' {
				t.Errorf("the expression of %q has more than one line: %q", text, path.Expr("object"))
			}
		}
	})
}

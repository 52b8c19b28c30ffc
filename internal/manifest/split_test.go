package manifest_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/usher-dev/usher/internal/manifest"
)

func TestSplit(t *testing.T) {
	t.Parallel()
	type document struct {
		Line, First int
		Text        string
	}
	for _, test := range []struct {
		reason, content string
		want            []document
	}{
		{"nothing", "", nil},
		{"only comments", "# a\n---\n# b\n\n", nil},
		{"one", "a: 1\n", []document{{1, 1, "a: 1\n"}}},
		{"a comment above, which stays with it", "# a\n\na: 1\n---\n# b\nb: 2", []document{{1, 3, "# a\n\na: 1\n"}, {4, 6, "---\n# b\nb: 2"}}},
		{"a marker with a comment, and one with a value", "--- # a\na: 1\n--- b\n", []document{{1, 2, "--- # a\na: 1\n"}, {3, 3, "--- b\n"}}},
		{"a directive, which is no document", "%YAML 1.1\n---\na: 1\n", []document{{2, 3, "---\na: 1\n"}}},
		{"the end of a document", "a: 1\n...\nb: 2\n", []document{{1, 1, "a: 1\n"}, {3, 3, "b: 2\n"}}},
		{"the line breaks of Windows", "a: 1\r\n---\r\nb: 2\r\n", []document{{1, 1, "a: 1\r\n"}, {2, 3, "---\r\nb: 2\r\n"}}},
		{"what only resembles a marker", "a: |\n  x\n----\n", []document{{1, 1, "a: |\n  x\n----\n"}}},
	} {
		var got []document
		for _, d := range manifest.Split([]byte(test.content)) {
			got = append(got, document{d.Line, d.First, string(d.Text)})
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", test.reason, diff)
		}
	}
}

func TestValues(t *testing.T) {
	t.Parallel()
	object := func(n any) any { return map[string]any{"v": n} }
	for _, test := range []struct {
		reason, text string
		want         []any
		fails        bool
	}{
		{"YAML", "v: 1", []any{object(int64(1))}, false},
		{"a large number", "v: 9007199254740993", []any{object(int64(9007199254740993))}, false},
		{"null", "~", nil, false},
		{"JSON, one value after the other", "---\n{\"v\": 1}\n\t{\"v\": 2.0} {\"v\": 1e3}", []any{object(int64(1)), object(2.0), object(1000.0)}, false},
		{"a mapping in braces that is not JSON", "{v: 1}", []any{object(int64(1))}, false},
		{"no YAML", "v: [", nil, true},
		{"no YAML after JSON", "{\"v\": 1} {v: [", nil, true},
	} {
		documents := manifest.Split([]byte(test.text))
		if len(documents) != 1 {
			t.Errorf("%s: %d documents", test.reason, len(documents))
			continue
		}
		got, err := documents[0].Values()
		if diff := cmp.Diff(test.want, got); diff != "" || (err != nil) != test.fails {
			t.Errorf("%s: %v: -want +got:\n%s", test.reason, err, diff)
		}
	}
}

func TestMember(t *testing.T) {
	t.Parallel()
	const text = "shared: &s {name: a}\nspec:\n  used: *s\n  list: [1]\n---\nname: b\n"
	roots := slices.Collect(func(yield func(string) bool) {
		for root, err := range manifest.Nodes([]byte(text)) {
			if err != nil {
				t.Error(err)
			}
			for _, path := range [][]string{{"spec", "used", "name"}, {"name"}, {"spec", "missing", "name"}, {"spec", "list", "name"}} {
				if !yield(manifest.Text(root, path...)) {
					return
				}
			}
		}
	})
	if diff := cmp.Diff([]string{"a", "", "", "", "", "b", "", ""}, roots); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	n := 0
	for _, err := range manifest.Nodes([]byte("a: 1\n---\n{\n---\nb: 1\n")) {
		if n++; (n == 2) != (err != nil) {
			t.Errorf("document %d: %v", n, err)
		}
	}
	if n != 2 {
		t.Errorf("%d documents, expected one and an error", n)
	}
}

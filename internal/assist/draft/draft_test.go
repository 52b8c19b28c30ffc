package draft_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/usher-dev/usher/internal/assist/draft"
)

// tree returns the scalars of a node, each with its path.
func tree(n *draft.Node, path string) []string {
	var all []string
	switch n.Kind {
	case draft.Map:
		for _, child := range n.Children {
			all = append(all, tree(child, path+"."+child.Key)...)
		}
	case draft.List:
		for i, child := range n.Children {
			all = append(all, tree(child, fmt.Sprintf("%s[%d]", path, i))...)
		}
	case draft.Scalar, draft.Nothing:
		return []string{path + "=" + n.Value()}
	}
	return all
}

// parsed is the same for what a parser of YAML reads.
func parsed(n *yaml.Node, path string) []string {
	var all []string
	switch n.Kind {
	case yaml.DocumentNode:
		return parsed(n.Content[0], path)
	case yaml.MappingNode:
		for i := 0; i < len(n.Content); i += 2 {
			all = append(all, parsed(n.Content[i+1], path+"."+n.Content[i].Value)...)
		}
	case yaml.SequenceNode:
		for i, item := range n.Content {
			all = append(all, parsed(item, fmt.Sprintf("%s[%d]", path, i))...)
		}
	default:
		return []string{path + "=" + n.Value}
	}
	return all
}

// compare compares the tree of a text with that of a parser of YAML, if it can read the text.
func compare(t *testing.T, name, text string) bool {
	t.Helper()
	decoder := yaml.NewDecoder(strings.NewReader(text))
	var want []string
	for {
		var n yaml.Node
		if err := decoder.Decode(&n); err != nil {
			if err.Error() != "EOF" {
				return false
			}
			break
		}
		if n.Content[0].Tag != "!!null" {
			want = append(want, parsed(&n, "")...)
		}
	}
	var got []string
	for _, root := range draft.Parse(text).Documents {
		if root.Kind != draft.Nothing {
			got = append(got, tree(root, "")...)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s: -YAML +draft:\n%s", name, diff)
	}
	return true
}

// TestTreesAreThoseOfYAML compares the trees of all manifests of this repository.
func TestTreesAreThoseOfYAML(t *testing.T) {
	t.Parallel()
	compared := 0
	for _, folder := range []string{"../../../examples", "../../../library", "../../../deploy/crds", "../../trial/testdata", "../../../cmd/usher/testdata"} {
		err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(path)) {
				return err
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			if compare(t, path, string(text)) {
				compared++
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if compared < 100 {
		t.Errorf("compared %d files", compared)
	}
}

func TestTexts(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ reason, text string }{
		{"plain text goes on", "a: one\n  two\n\n  three\nb: 1\n"},
		{"a URL and a hash are no key and no comment", "a: http://x#y # z\n'b c': \"d: e\"\n"},
		{"quotes that are escaped", `a: 'it''s'` + "\n" + `b: "\"\\\n\u00e4\x41 ok \
  on"` + "\n"},
		{"quoted text over lines", "a: \"one\n  two\n\n  three\"\nb: 'x\n  y'\n"},
		{"block scalars", "a: |\n  one\n    two\n\n  three\n\nb: |-\n  x\nc: |+\n  y\n\nd: >\n  one\n  two\n\n  three\n    four\n  five\n"},
		{"block scalars with indicators", "a:\n  - |2-\n      x\n    y\n  - >-\n    z\n"},
		{"lists at the column of their key", "a:\n- b\n- c: 1\n  d:\n  - e\nf: []\n"},
		{"lists in lists", "- - a\n  - b\n- \n  - c\n-\n  d: 1\n"},
		{"brackets", "{a: [1, 2, {b: c}], 'd': \"e, f\", g: h:i, j: , k}\n"},
		{"brackets over lines", "a: [\n  b, # x\n  c\n]\nd: {e: f,\n  g: h}\n"},
		{"anchors and tags", "a: &x !!str b\nc: &y\n  d: e\n"},
		{"documents", "# c\n---\na: 1\n--- # d\nb: |\n  ---x\n---\n"},
		{"nothing", ""},
		{"windows", "a: 1\r\nb: |\r\n  c\r\n  d\r\n"},
		{"empty values", "a:\nb:\n  c:\n  d: ''\n"},
		{"JSON", `{"a": {"b": [1, "x\ny", {"c": null}]},
	"d": "e"}`},
	} {
		if !compare(t, test.reason, test.text) {
			t.Errorf("%s: YAML cannot be read", test.reason)
		}
	}
}

// TestPlaces: each character of an expression is found in the file, and the other way round.
func TestPlaces(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"a: object.x\n", "a: 'ob''ject.x'\n", `a: "ob\"ject.x"`, "a: |\n  object\n    .x\n  y\n", "a: >-\n  object.x\n  y\n", "a: object\n  .x\n", "{a: object.x}",
	} {
		value := draft.Parse(text).Documents[0].Get("a").Text()
		for i, c := range value.String {
			at := value.Source(i)
			if c != ' ' && c != '\n' && text[at] != byte(c) && text[at] != '\\' {
				t.Errorf("%q: %q at %d is at %q", text, c, i, text[at:])
			}
			if back := value.Offset(at); c != ' ' && c != '\n' && back != i {
				t.Errorf("%q: %d is at %d, where %d is", text, i, at, back)
			}
		}
	}
}

// TestBrokenTexts: what can be told from a text that is no YAML.
func TestBrokenTexts(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		reason, text string
		want         []string
	}{
		{"a key without a colon", "a:\n  b\n  c: 1\n", []string{".a.b=", ".a.c=1"}},
		{"brackets that do not close", "a: [b, {c: d\ne: 1\n", []string{".a[0]=b", ".a[1].c=d", ".e=1"}},
		{"a quotation mark that does not close", "a:\n  b: \"c\n  d: 1\n", []string{".a.b=c", ".a.d=1"}},
		{"more behind a quotation mark", "a: 'b' + c\nd: 1\n", []string{".a=b", ".d=1"}},
		{"less indentation than before", "  a: 1\nb: 2\n", []string{".a=1", ".b=2"}},
		{"a bracket too many", "a: [b}]\nc: 1\n", []string{".a[0]=b", ".c=1"}},
		{"a key below a text", "a: b\n  c: 1\nd: 2\n", []string{".a=b", ".d=2"}},
	} {
		if diff := cmp.Diff(test.want, tree(draft.Parse(test.text).Documents[0], "")); diff != "" {
			t.Errorf("%s: -want +got:\n%s", test.reason, diff)
		}
	}
}

// TestHostileTexts: any text is read within seconds.
func TestHostileTexts(t *testing.T) {
	t.Parallel()
	const size = 1 << 19
	for _, part := range []string{
		"- ", "a: ", "[", "{", "{a: ", "[}", "\"", "'\n", "\"\\", "a: |\n", "&a ", "!t\n", "? ", "---\n", "a:\n ", "\t", "\xff", "\r", "#", ", ", "a: [\n", "- {\n", ": ", "a\n", "a: b\n ", "\u2028", "*a",
	} {
		text := strings.Repeat(part, size/len(part))
		begin := time.Now()
		for _, text := range []string{text, "a: " + text, "x:\n  - " + text + "\ny: 1\n", `{"a": ` + text} {
			walk(draft.Parse(text).Documents)
		}
		if took := time.Since(begin); took > 30*time.Second {
			t.Errorf("%q takes %s", part, took)
		}
	}
}

func walk(nodes []*draft.Node) {
	for _, n := range nodes {
		n.Value()
		walk(n.Children)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("a:\n  - b: {c: [d, 'e']}\n    f: |\n      g\n")
	f.Fuzz(func(t *testing.T, text string) {
		tree := draft.Parse(text)
		var check func(nodes []*draft.Node)
		check = func(nodes []*draft.Node) {
			for _, n := range nodes {
				if n.From > n.To || n.To > len(text) || n.KeyFrom > n.KeyTo || n.KeyTo > len(text) {
					t.Errorf("%q: %+v", text, n)
				}
				value := n.Text()
				for i := range value.String {
					if at := value.Source(i); at < n.From || at > n.To {
						t.Errorf("%q: %d of %q is at %d", text, i, value.String, at)
					}
				}
				check(n.Children)
			}
		}
		check(tree.Documents)
		for offset := range len(text) + 1 {
			tree.Document(offset).At(offset).Path()
		}
	})
}

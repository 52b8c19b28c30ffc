package assist_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/usher-dev/usher/internal/assist"
	"github.com/usher-dev/usher/internal/manifest"
)

func formatted(t testing.TB, text string) (string, error) {
	t.Helper()
	edits, err := assist.Format(text)
	if err != nil {
		return text, err
	}
	return assist.Apply(text, edits), nil
}

func TestFormat(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ reason, text, want string }{
		{"maps by two", "a:\n    b:\n        c: 1\n", "a:\n  b:\n    c: 1\n"},
		{"lists in the column of their key", "a:\n  - b: 1\n    c: 2\n  -   d\n", "a:\n- b: 1\n  c: 2\n- d\n"},
		{"lists of lists", "-   - a\n    - b\n-\n  c: 1\n", "- - a\n  - b\n-\n  c: 1\n"},
		{"a space after a colon", "a:    1\nb:   # none\n  c: 2\n", "a: 1\nb:   # none\n  c: 2\n"},
		{"comments keep their company", "# top\na:\n    # of b\n    b: 1\n    # of a\n# of c\nc: 2 # same line\n", "# top\na:\n  # of b\n  b: 1\n  # of a\n# of c\nc: 2 # same line\n"},
		{"comments in lists", "a:\n    # first\n    - b\n    # second\n    - c\n# end\n", "a:\n# first\n- b\n# second\n- c\n# end\n"},
		{"block scalars keep their columns", "a:\n    b: |\n        x\n          y\n\n\n        z  \n    # of c\n    c: >-\n            q\n", "a:\n  b: |\n    x\n      y\n\n\n    z  \n  # of c\n  c: >-\n    q\n"},
		{"block scalars with their own indentation", "a:\n    b: |2\n        x\n      y\n", "a:\n  b: |2\n      x\n    y\n"},
		{"block scalars that keep line breaks", "a:\n    b: |+\n        x\n\n\nc: 1\n", "a:\n  b: |+\n    x\n\n\nc: 1\n"},
		{"a block scalar at the end", "a: |\n     x", "a: |\n  x"},
		{"no line break at the end", "a: 1", "a: 1\n"},
		{"blank lines", "\n\na: 1\n\n\n\nb: 2\n  \n\n", "a: 1\n\nb: 2\n"},
		{"plain scalars of several lines", "a:\n    b: one\n       two\n\n       three\n    c: 1\n", "a:\n  b: one\n    two\n\n    three\n  c: 1\n"},
		{"quoted scalars of several lines", "a:\n    b: \"one \\\n       two\n\n\n       three\"\n    c: 'x\n\n     it''s'\n", "a:\n  b: \"one \\\n    two\n\n\n    three\"\n  c: 'x\n\n    it''s'\n"},
		{"flow values move with their line", "a:\n    b: {c: [\n          1, '}',\n       ], d: 2} # }\n    e: 1\n", "a:\n  b: {c: [\n        1, '}',\n     ], d: 2} # }\n  e: 1\n"},
		{"keys with quotes, anchors and tags", "\"a: b\":   &x\n    'c''d':   !!str 1\n    e:   *x\n", "\"a: b\": &x\n  'c''d': !!str 1\n  e: *x\n"},
		{"line breaks of Windows", "a:\r\n    b: 1\r\n", "a:\n  b: 1\n"},
		{"documents", "%YAML 1.1\n---\na:\n    b: 1\n---   # next\n# c\n  - x\n...\n", "%YAML 1.1\n---\na:\n  b: 1\n--- # next\n# c\n- x\n...\n"},
		{"values on lines of their own", "a:\n      text\n      more\nb:\n      |\n       x\n", "a:\n  text\n  more\nb:\n  |\n  x\n"},
	} {
		got, err := formatted(t, row.text)
		if err != nil {
			t.Errorf("%s: %v", row.reason, err)
		}
		if diff := cmp.Diff(row.want, got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", row.reason, diff)
		}
		if again, err := formatted(t, got); err != nil || again != got {
			t.Errorf("%s: once more it is %q, %v", row.reason, again, err)
		}
	}
}

func TestFormatOfWhatIsNotYAML(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"a: 1\n---\nb:\n  c: [\nd: 1\n":     "the text is not formatted: line 4: ",
		"? a\n:   b\n":                      "",
		strings.Repeat("# a line\n", 1<<17): "the text has 1179648 bytes, and is not formatted",
		strings.Repeat("---\n1\n", 110_000): "the text has 660000 bytes, and is not formatted",
	} {
		got, err := formatted(t, text)
		if got != text && err != nil {
			t.Errorf("%.40q has changed, with the error %v", text, err)
		}
		if want != "" && (err == nil || !strings.HasPrefix(err.Error(), want)) {
			t.Errorf("%.40q: got %v, want %s", text, err, want)
		}
	}
}

// TestFormatOfEverything: formatting what this repository has twice is formatting it once, and each document has the
// same values and the same comments.
func TestFormatOfEverything(t *testing.T) {
	t.Parallel()
	texts, refused := 0, 0
	for _, folder := range []string{"../../examples", "../../library", "../../docs", "../../deploy/manifests", "../../deploy/crds", "../../internal/trial", "../../internal/convert", "../../internal/policytest"} {
		err := filepath.WalkDir(folder, func(name string, _ fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(name) != ".yaml" {
				return err
			}
			content, err := os.ReadFile(name)
			if err != nil || len(content) > 40_000 {
				return err
			}
			texts++
			text := string(content)
			if texts%10 == 0 {
				text = strings.ReplaceAll(text, "\n", "\r\n")
			}
			if !sameWhenFormatted(t, name, text) {
				refused++
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	if texts < 500 || refused > texts/50 {
		t.Errorf("%d texts, of which %d are not formatted", texts, refused)
	}
}

// sameWhenFormatted reports whether a text is formatted, and fails if it then means something else.
func sameWhenFormatted(t *testing.T, name, text string) bool {
	t.Helper()
	got, err := formatted(t, text)
	if err != nil {
		if _, values := valuesOf(text); values == nil {
			t.Logf("%s: %v", name, err)
		}
		return false
	}
	if again, err := formatted(t, got); err != nil || again != got {
		t.Errorf("%s: twice is not once: %v\n%s", name, err, cmp.Diff(got, again))
	}
	before, err := valuesOf(text)
	if err != nil {
		return true
	}
	after, err := valuesOf(got)
	if diff := cmp.Diff(before, after); diff != "" || err != nil {
		t.Errorf("%s: %v %s", name, err, diff)
	}
	if diff := cmp.Diff(wordsOf(text), wordsOf(got)); diff != "" {
		t.Errorf("%s: %s", name, diff)
	}
	return true
}

// wordsOf returns a text without white space: comments and order are in it.
func wordsOf(text string) string { return strings.Join(strings.Fields(text), " ") }

func valuesOf(text string) ([]any, error) {
	var all []any
	for _, d := range manifest.Split([]byte(text)) {
		values, err := d.Values()
		if err != nil {
			return nil, err
		}
		all = append(all, values...)
	}
	return all, nil
}

func FuzzFormat(f *testing.F) {
	for _, text := range []string{"a:\n    - b: |\n         c\n      # d\n", "- - 'a\n  b'\n- {c: [d,\n e]}\n", "? a\n: b\n", "--- >\n a\n", "a: b\n  c\n"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := formatted(t, text)
		if err != nil {
			return
		}
		before, err := valuesOf(text)
		if err != nil {
			return
		}
		after, err := valuesOf(got)
		if diff := cmp.Diff(before, after); diff != "" || err != nil {
			t.Errorf("%v %s", err, diff)
		}
	})
}

// TestFormatOfHostileTexts: texts that make parsers slow are formatted or refused; go test's own timeout is the bound.
func TestFormatOfHostileTexts(t *testing.T) {
	t.Parallel()
	for reason, text := range map[string]string{
		"many anchors":  strings.Repeat("- &a 1\n", 20_000),
		"aliases":       "a: &a [1]\nb: [" + strings.Repeat("*a,", 50_000) + "]\n",
		"deep maps":     "a: " + strings.Repeat("{a: ", 100_000),
		"deep lists":    strings.Repeat("- ", 200_000),
		"deep columns":  stairs(500),
		"commas":        "[" + strings.Repeat("a,", 50_000) + "]",
		"comments":      strings.Repeat("#\n", 250_000) + "a: 1\n",
		"blank lines":   "a: |+\n" + strings.Repeat("\n", 500_000) + "b: 1\n",
		"quotes":        "a: '" + strings.Repeat("\n", 500_000) + "'\n",
		"small items":   strings.Repeat("- a\n", 50_000),
		"control":       "a: '\x1b[2J\u202e'\n\x00",
		"surrogates":    "a: '\xed\xa0\x80'\n",
		"tabs":          strings.Repeat("\ta: b\n", 1000),
		"other breaks":  strings.Repeat("a: b\u2028", 1000),
		"carriage":      strings.Repeat("a: b\r", 1000),
		"deep comments": strings.Repeat("- ", 5000) + "a\n" + strings.Repeat("  #\n", 100_000),
		"many keys":     strings.Repeat("a: 1\n", 50_000),
	} {
		got, err := formatted(t, text)
		if again, second := formatted(t, got); err == nil && (second != nil || again != got) {
			t.Errorf("%s: twice is not once: %v", reason, second)
		}
	}
}

// stairs returns maps in one another, each a column further.
func stairs(depth int) string {
	var b strings.Builder
	for i := range depth {
		b.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	return b.String()
}

package corpus_test

import (
	"strings"
	"testing"

	"github.com/usher-dev/usher/internal/convert/kyverno/corpus"
)

const folder = "../testdata/corpus"

// Each row of each file has a name of its own, and an answer that was recorded.
func TestRecorded(t *testing.T) {
	t.Parallel()
	files, err := corpus.Load(folder)
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 300 {
		t.Errorf("%d files", len(files))
	}
	for i := range files {
		f := &files[i]
		names := map[string]bool{}
		for n := range f.Rows {
			r := &f.Rows[n]
			if r.Answers == nil {
				t.Errorf("%s: %s has no answers: run make kyverno-answers", f.Name, r.Name)
			}
			if names[r.Name] {
				t.Errorf("%s: two rows are %s", f.Name, r.Name)
			}
			names[r.Name] = true
		}
		if f.About == "" || len(f.Rows) == 0 {
			t.Errorf("%s says nothing", f.Name)
		}
	}
}

func TestRecord(t *testing.T) {
	t.Parallel()
	text := "rows:\n  # a comment\n  - {name: a, object: {b: 1}, answers: {r: fail}, patched: {c: 1}}\n"
	out, err := corpus.Record([]byte(text), []corpus.Row{{Answers: map[string]string{"r": "pass"}}})
	if err != nil {
		t.Fatal(err)
	}
	if want := "rows:\n  # a comment\n  - {name: a, object: {b: 1}, answers: {r: pass}}\n"; string(out) != want {
		t.Errorf("got %s, want %s", out, want)
	}
	if _, err := corpus.Record([]byte(text), nil); err == nil || !strings.Contains(err.Error(), "0 rows") {
		t.Errorf("got %v", err)
	}
}

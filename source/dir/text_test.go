package dir_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/api/kcloudlabs/v1alpha1"
	"github.com/usher-dev/usher/source/dir"
)

const withCUE = `apiVersion: policy.kcloudlabs.io/v1alpha1
kind: ClusterOverridePolicy
metadata: {name: x}
spec:
  overrideRules:
  - overriders:
      cue: `

// TestLocateInText finds the character § of a text in the file.
func TestLocateInText(t *testing.T) {
	t.Parallel()
	tests := []struct{ reason, cue string }{
		{"plain text", `a == §b`},
		{"plain text in several lines", "a ==\n        b && §c"},
		{"in single quotes", `'a == ''b'' && §c'`},
		{"in double quotes, with escapes", `"a == \"b\\\" \u00e9\x41\tx && §c"`},
		{"in double quotes, with an escaped line break", "\"a == b \\\n        && é§c\""},
		{"in double quotes, with a line break of the text", `"a == b\n  && §c"`},
		{"a literal block", "|\n        a ==\n\n          b && §c\n"},
		{"a literal block whose indentation is given", "|2\n         a ==\n\n          b && §c\n"},
		{"a folded block", ">-\n        a ==\n        b\n\n        && §c\n"},
		{"a folded block with a comment", ">- # why\n        a ==\n          b\n        && §c\n"},
		{"with an anchor and a tag", `&a !!str "a == §b"`},
		{"at a blank, it is after the character before", "|\n        a ==§ b"},
	}
	for _, test := range tests {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			text := policy("ClusterOverridePolicy", "before") + "---\n" +
				withCUE + test.cue
			checkMark(t, "a.yaml", text, 1)
		})
	}
	t.Run("JSON, the second value of a line", func(t *testing.T) {
		t.Parallel()
		value := `{"apiVersion": "policy.kcloudlabs.io/v1alpha1", "kind": "ClusterOverridePolicy", "metadata": {"name": "NAME"},` +
			"\t" + `"spec": {"overrideRules": [{"overriders": {"cue": "a == \"\\\" \/ \u003d\n\t&& MARKc"}}]}}`
		first := strings.NewReplacer("NAME", "x", "MARK", "").Replace(value)
		checkMark(t, "a.json", first+strings.NewReplacer("NAME", "y", "MARK", "§").Replace(value), 1)
	})
	t.Run("a rare escape is not understood", func(t *testing.T) {
		t.Parallel()
		folder := t.TempDir()
		text := withCUE + `"a\e == b"`
		write(t, folder, map[string]string{"a.yaml": text})
		set, err := dir.Load(folder)
		if err != nil || len(set.Policies) != 1 {
			t.Fatalf("got %v, %v", set, err)
		}
		const field = "spec.overrideRules[0].overriders.cue"
		if at := set.Policies[0].PositionIn(field, 1, 7); at != set.Policies[0].Position(field) {
			t.Errorf("got %v, want the position of the field", at)
		}
	})
}

// checkMark checks the position of the mark in the text of policy n of a file.
func checkMark(t *testing.T, name, content string, n int) {
	t.Helper()
	read := func(content string) api.Policy {
		folder := t.TempDir()
		write(t, folder, map[string]string{name: content})
		set, err := dir.Load(folder)
		if err != nil || len(set.Policies) <= n {
			t.Fatalf("got %v, %v", set, err)
		}
		return set.Policies[n]
	}
	place := func(text string) (line, column int) {
		before, _, marked := strings.Cut(text, "§")
		if !marked {
			t.Fatalf("no mark in %q", text)
		}
		return 1 + strings.Count(before, "\n"), 1 + len([]rune(before[strings.LastIndex(before, "\n")+1:]))
	}
	marked := read(content)
	line, column := place(marked.Object.(*v1alpha1.ClusterOverridePolicy).Spec.OverrideRules[0].Overriders.Cue)
	unmarked := read(strings.ReplaceAll(content, "§", ""))
	at := unmarked.PositionIn("spec.overrideRules[0].overriders.cue", line, column)
	wantLine, wantColumn := place(content)
	if filepath.Base(at.File) != name || at.Line != wantLine || at.Column != wantColumn {
		t.Errorf("at %s:%d:%d, want line %d, column %d", at.File, at.Line, at.Column, wantLine, wantColumn)
	}
}

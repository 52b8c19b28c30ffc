package dir_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/source/dir"
)

const placed = `# A comment.
---
apiVersion: policy.kcloudlabs.io/v1alpha1
kind: ClusterOverridePolicy
metadata:
  name: x
  annotations:
    a.b/c.d: here
    a.b: there
spec:
  resourceSelectors: &selectors
  - apiVersion: v1
    kind: Pod
  overrideRules:
  - targetOperations:
    - CREATE
    - UPDATE
    overriders:
      cue: |-

        patches: []
      plaintext: [{path: /a, op: add},
        {path: /b, op: remove}]
  - overriders:
      cue: 'patches: []'
      template:
        type: labels
`

func TestLocate(t *testing.T) {
	t.Parallel()
	tests := []struct {
		reason string
		field  string
		line   int
	}{
		{"the policy itself", "", 3},
		{"a field of the top", "metadata", 5},
		{"a field in a field", "metadata.name", 6},
		{"a key with dots in it", "metadata.annotations.a.b/c.d", 8},
		{"a key that begins another", "metadata.annotations.a.b", 9},
		{"a list is where its key is", "spec.overrideRules", 14},
		{"an item is where its dash is", "spec.overrideRules[0]", 15},
		{"an item of an inner list", "spec.overrideRules[0].targetOperations[1]", 17},
		{"a block of text is where the text begins, blank lines counted", "spec.overrideRules[0].overriders.cue", 20},
		{"an item in flow style", "spec.overrideRules[0].overriders.plaintext[1].op", 23},
		{"text in one line is on that line", "spec.overrideRules[1].overriders.cue", 25},
		{"what is not written down is where its parent is", "spec.overrideRules[1].overriders.template.labels.value", 26},
		{"an item that does not exist is where its list is", "spec.overrideRules[7].overriders", 14},
		{"a field below text is where the text is introduced", "metadata.name.x", 6},
		{"nonsense is at the top", "[0]]..", 3},
	}
	folder := t.TempDir()
	write(t, folder, map[string]string{"a.yaml": policy("ClusterOverridePolicy", "first") + placed})
	set, err := dir.Load(folder)
	if err != nil || len(set.Policies) != 2 {
		t.Fatalf("got %v, %v", set, err)
	}
	for _, test := range tests {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			at := set.Policies[1].Position(test.field)
			// One line is the policy before.
			if at.File != filepath.Join(folder, "a.yaml") || at.Line != test.line+1 {
				t.Errorf("%s is at %s:%d, want line %d", test.field, at.File, at.Line, test.line+1)
			}
		})
	}
}

func TestLocateElsewhere(t *testing.T) {
	t.Parallel()
	json := "{\"apiVersion\": \"policy.kcloudlabs.io/v1alpha1\", \"kind\": \"ClusterOverridePolicy\",\n" +
		"\t\"metadata\": {\"name\": \"NAME\", \"annotations\": {\"x\": \"\\ud83d\\ude00 \\/ \\\\u12\"}},\n" +
		"\t\"spec\": {\"overrideRules\": [{\"overriders\":\n\t\t{\"cue\": \"x\"}}]}}\n"
	yaml := strings.ReplaceAll(policy("ClusterOverridePolicy", "NAME"), "spec: {}", "spec: {overrideRules: [{overriders:\n {\n cue: x}}]}")
	tests := []struct {
		reason string
		file   string
		line   int
	}{
		{"JSON, with tabs and escapes that YAML does not know", "a.json", 4},
		{"the second JSON value of a file", "b.json", 8},
		{"JSON in a YAML file", "c.yaml", 5},
		{"an item of a list", "d.yaml", 8},
	}
	folder := t.TempDir()
	write(t, folder, map[string]string{
		"a.json": strings.ReplaceAll(json, "NAME", "a"),
		"b.json": strings.ReplaceAll(json, "NAME", "b1") + strings.ReplaceAll(json, "NAME", "b"),
		"c.yaml": "---\n" + strings.ReplaceAll(json, "NAME", "c"),
		"d.yaml": "kind: List\napiVersion: v1\nitems:\n- {}\n- " + policy("ClusterOverridePolicy", "d1") + "- " + strings.ReplaceAll(yaml, "NAME", "d"),
	})
	set, err := dir.Load(folder)
	if err != nil || len(set.Unreadable) > 0 {
		t.Fatalf("got %v, %v", set, err)
	}
	for _, test := range tests {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			for _, p := range set.Policies {
				if p.Object.GetName()+filepath.Ext(test.file) != test.file {
					continue
				}
				at := p.Position("spec.overrideRules[0].overriders.cue")
				if filepath.Base(at.File) != test.file || at.Line != test.line {
					t.Errorf("at %s:%d, want %s:%d", at.File, at.Line, test.file, test.line)
				}
				return
			}
			t.Errorf("no policy of %s among %v", test.file, summary(set, folder))
		})
	}
}

// FuzzLoad checks that no file can crash a reader, and that every place is a line of its
// file.
func FuzzLoad(f *testing.F) {
	f.Add(placed, ".yaml")
	f.Add("---\n\v\n...\n--- {\n\"a\": 1}\n------\n", ".yaml")
	f.Add("kind: List\napiVersion: v1\nitems: [&a {kind: ClusterOverridePolicy}, *a, 1]\n", ".yml")
	f.Add(`{"apiVersion": "usher.dev/v1", "kind": 1} {`, ".json")
	f.Fuzz(func(t *testing.T, content, extension string) {
		if extension != ".json" {
			extension = ".yaml"
		}
		path := filepath.Join(t.TempDir(), "a"+extension)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		set, err := dir.Load(path)
		if err != nil {
			t.Fatal(err)
		}
		places := make([]api.Position, 0, len(set.Policies)+len(set.Unreadable))
		for _, p := range set.Policies {
			places = append(places, p.Position(""), p.Position("spec.overrideRules[0].overriders.cue"))
		}
		for _, u := range set.Unreadable {
			places = append(places, u.Position)
		}
		last := 1 + strings.Count(content, "\n")
		for _, at := range places {
			if at.File != path || at.Line < 1 || at.Line > last {
				t.Errorf("%v is not in the file of %d lines", at, last)
			}
		}
	})
}

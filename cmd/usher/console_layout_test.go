package main

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	page "github.com/usher-dev/usher/cmd/usher/internal/console"
	"github.com/usher-dev/usher/internal/console"
)

// laidOut writes files as usher init lays them out: policies and cases in folders of their own.
func laidOut(t *testing.T) (root, cases string) {
	t.Helper()
	root = t.TempDir()
	cases = "name: none\nphase: validate\npolicyFiles: [../policies/team.yaml]\n" +
		"request: {operation: CREATE, namespace: shop, object: {apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: shop}}}\nexpect: {allowed: false}\n"
	for name, text := range map[string]string{
		"policies/team.yaml": teamPolicy, "cases/team.yaml": cases, "pod.yaml": teamless, "more/check.yaml": cases, "policies/wrong.yaml": "a: [",
	} {
		if err := os.MkdirAll(filepath.Join(root, filepath.Dir(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root, cases
}

// TestConsoleCasesNameFiles: files that cases name are the policies of the page or files of the folder, and no others.
func TestConsoleCasesNameFiles(t *testing.T) {
	t.Parallel()
	root, cases := laidOut(t)
	weaker := strings.Replace(teamPolicy, "'team' in", "true || 'team' in", 1)
	none, all, inner := opened(t), opened(t, "-p", root), opened(t, "-p", filepath.Join(root, "policies"))
	for _, row := range []struct {
		reason string
		c      *caller
		in     page.Testing
		passed int
	}{
		{"the page, without a folder", none, page.Testing{Policies: teamPolicy, Cases: cases}, 1},
		{"a weaker policy of the page", none, page.Testing{Policies: weaker, Cases: cases}, 0},
		{"the folder", all, page.Testing{Cases: cases}, 1},
		{"the file that is on the page, changed", all, page.Testing{Policies: weaker, File: "policies/team.yaml", Cases: cases, CasesFile: "cases/team.yaml"}, 0},
		{"a file that is not on the page", all, page.Testing{Policies: teamPolicy, File: "policies/other.yaml", Cases: cases}, 1},
		{"the folder of the policies alone", inner, page.Testing{Policies: weaker, File: "team.yaml", Cases: cases}, 0},
	} {
		got := call[page.Tested](row.c, "test", row.in, http.StatusOK)
		if got.Passed != row.passed || got.Passed+got.Failed != 1 {
			t.Errorf("%s: %+v", row.reason, got)
		}
		if len(got.Suites) != 1 || strings.ContainsAny(got.Suites[0].File, `/\`) {
			t.Errorf("%s: the cases are of %+v", row.reason, got.Suites)
		}
	}
	for reason, in := range map[string]page.Testing{
		"no policies":                      {Cases: cases},
		"a file outside of it":             {Cases: strings.Replace(cases, "../policies/team.yaml", "../../../../../../../../etc/hostname", 1)},
		"another file than that of a page": {Policies: teamPolicy, File: "other.yaml", Cases: cases},
	} {
		said := call[map[string]string](none, "test", in, http.StatusUnprocessableEntity)["error"]
		if !strings.Contains(said, "with -p") || strings.Contains(said, "usher-console") || strings.Contains(said, os.TempDir()) {
			t.Errorf("%s: %s", reason, said)
		}
	}
}

// TestConsoleSaysWhatFilesHave: by what is in them.
func TestConsoleSaysWhatFilesHave(t *testing.T) {
	t.Parallel()
	root, _ := laidOut(t)
	c := opened(t, "-p", root+string(filepath.Separator)+".")
	want := []page.File{
		{Path: "cases/team.yaml", Kind: "cases"}, {Path: "more/check.yaml", Kind: "cases"}, {Path: "pod.yaml", Kind: "objects"},
		{Path: "policies/team.yaml", Kind: "policies"}, {Path: "policies/wrong.yaml", Kind: "policies"},
	}
	if got := call[page.Info](c, "info", nil, http.StatusOK); cmp.Diff(want, got.Files) != "" {
		t.Errorf("files: %s", cmp.Diff(want, got.Files))
	}
	if got := call[page.FileText](c, "file?path=pod.yaml", nil, http.StatusOK); got.Kind != "objects" {
		t.Errorf("read %+v", got)
	}
	// The name of a folder that was opened as "." is of use to nobody.
	if got := call[page.Info](opened(t, "-p", "."), "info", nil, http.StatusOK).Folder; got != "usher" {
		t.Errorf("the folder is called %q", got)
	}
}

// TestConsoleSaysWarned: as usher decide says it.
func TestConsoleSaysWarned(t *testing.T) {
	t.Parallel()
	c := opened(t)
	got := call[page.Decision](c, "decide", console.State{Policies: strings.Replace(teamPolicy, "[Deny]", "[Warn]", 1), Object: teamless}, http.StatusOK)
	if got.Verdict != "warned" || len(got.Trace) != 1 || got.Trace[0].Outcome != "warned" {
		t.Errorf("verdict %s, traced %+v", got.Verdict, got.Trace)
	}
}

// TestConsoleWhySource: the sentence about the pods of a workload leads to the rule as it is written.
func TestConsoleWhySource(t *testing.T) {
	t.Parallel()
	c := opened(t)
	const written = "- name: team\n  expression: \"'team' in object.metadata.?labels.orValue({})\"\n  message: label team is required\n"
	for _, sentence := range []string{
		"label team is required (ClusterObjectPolicy require-team; its pods would be denied)",
		"label team is required (ClusterObjectPolicy require-team)",
	} {
		why := call[page.Reasons](c, "why", page.Question{Message: sentence, Policies: teamPolicy}, http.StatusOK).Matches
		if len(why) != 1 || why[0].Text != written {
			t.Errorf("%s: %+v", sentence, why)
		}
	}
	flow := "{apiVersion: usher.dev/v1alpha1, kind: ClusterObjectPolicy, metadata: {name: a}, spec: {validations: [{expression: 'false', message: never}]}}\n"
	why := call[page.Reasons](c, "why", page.Question{Message: "never (ClusterObjectPolicy a)", Policies: flow}, http.StatusOK).Matches
	if !slices.ContainsFunc(why, func(r page.Reason) bool { return strings.Contains(r.Text, "message: never\n") }) {
		t.Errorf("in flow style: %+v", why)
	}
}

// TestConsoleWhyOrder: what denied comes first, before what only warned and what has less of the sentence.
func TestConsoleWhyOrder(t *testing.T) {
	t.Parallel()
	c := opened(t)
	const many = `---
apiVersion: usher.dev/v1alpha1
kind: ClusterObjectPolicy
metadata: {name: many}
spec:
  validations:
  - {name: deadline, expression: "false", messageExpression: "'set the deadline of ' + object.metadata.name"}
  - {name: history, expression: "false", messageExpression: "'limit the history of ' + object.metadata.name"}
  - {name: short, expression: "false", message: is required}
  - {name: silent, expression: object.metadata.name == 'b'}
`
	for _, row := range []struct{ reason, sentence, want string }{
		{"an expression makes the message", "limit the history of a (ClusterObjectPolicy many)", "history deadline silent"},
		{"a rule without a message", "failed expression: object.metadata.name == 'b' (ClusterObjectPolicy many)", "silent deadline history"},
		{"a warning comes before the error", "Warning: label team is required (ClusterObjectPolicy require-team)\nError from server: denied the request: limit the history of a (ClusterObjectPolicy many)", "history short team"},
		{"a message is a part of another one", "label team is required", "team short"},
	} {
		var got []string
		for _, m := range call[page.Reasons](c, "why", page.Question{Message: row.sentence, Policies: teamPolicy + many}, http.StatusOK).Matches {
			if m.File == "" {
				got = append(got, m.Rule)
			}
		}
		if strings.Join(got, " ") != row.want {
			t.Errorf("%s: %v, want %s", row.reason, got, row.want)
		}
	}
}

package trial_test

import (
	"context"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
	"sigs.k8s.io/yaml"

	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/compile"
	"github.com/usher-dev/usher/lang/cue"
	"github.com/usher-dev/usher/rule"
	"github.com/usher-dev/usher/trial"
)

var update = flag.Bool("update", false, "write what is said of slips")

func TestMain(m *testing.M) {
	cue.Main()
	os.Exit(m.Run())
}

// TestSlips: each slip is told, as in the archive.
func TestSlips(t *testing.T) {
	t.Parallel()
	const file = "testdata/slips.txtar"
	archive, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if len(archive.Files)%2 != 0 || len(archive.Files) < 120 {
		t.Fatalf("%d files: want a policy and what is said of it, sixty times", len(archive.Files))
	}
	for i := 0; i < len(archive.Files); i += 2 {
		slip, said := archive.Files[i], &archive.Files[i+1]
		got := verdict(t, slip)
		if *update {
			said.Data = []byte(got)
			continue
		}
		if got == "" {
			t.Errorf("%s: nothing is said", slip.Name)
		}
		if diff := cmp.Diff(string(said.Data), got); diff != "" {
			t.Errorf("%s (-want +got; go test ./trial -update writes it):\n%s", slip.Name, diff)
		}
	}
	if *update {
		if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// verdict returns the problems of one slip, one a line.
func verdict(t *testing.T, slip txtar.File) string {
	t.Helper()
	kind, _, _ := strings.Cut(slip.Name, "/")
	c := compile.Policy(policy(t, map[string]string{"validate": "ClusterValidatePolicy", "override": "ClusterOverridePolicy"}[kind], slip.Data))
	problems := c.Problems
	if len(rule.Errors(rule.Written(problems))) == 0 {
		problems = append(problems, trial.Problems(t.Context(), c)...)
	}
	var b strings.Builder
	for _, p := range rule.Written(problems) {
		b.WriteString(strings.ReplaceAll(p.String(), c.Ref.String()+": ", "") + "\n")
	}
	return b.String()
}

func policy(t *testing.T, kind string, spec []byte) api.Policy {
	t.Helper()
	var tree any
	if err := yaml.Unmarshal(spec, &tree); err != nil {
		t.Fatalf("%s: %v", spec, err)
	}
	text, err := yaml.Marshal(map[string]any{
		"apiVersion": "policy.kcloudlabs.io/v1alpha1", "kind": kind, "metadata": map[string]any{"name": "p"}, "spec": tree,
	})
	if err != nil {
		t.Fatal(err)
	}
	raw, err := yaml.YAMLToJSON(text)
	if err != nil {
		t.Fatal(err)
	}
	p, err := api.Decode(raw)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestWhatWorksIsNotWarnedOf: rules that do without what may be missing.
func TestWhatWorksIsNotWarnedOf(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ reason, kind, spec string }{
		{"a label is tested for", "ClusterValidatePolicy", `
resourceSelectors: [{apiVersion: v1, kind: Pod}]
validateRules:
- cue: |
    object: _ @tag(object)
    validate: {
      reason: "no team"
      valid: *false | bool
      if object.metadata.labels.team != _|_ {valid: true}
    }`},
		{"a template makes the map", "ClusterOverridePolicy", `
resourceSelectors: [{apiVersion: v1, kind: Pod}]
overrideRules:
- overriders: {template: {type: annotations, operation: add, path: owner, value: {string: a}}}`},
		{"a kind of somebody else", "ClusterOverridePolicy", `
resourceSelectors: [{apiVersion: example.org/v1, kind: Widget}]
overrideRules:
- overriders: {plaintext: [{op: replace, path: /spec/size, value: 1}]}`},
		{"what defaults fill in", "ClusterValidatePolicy", `
resourceSelectors: [{apiVersion: v1, kind: Pod}]
validateRules:
- cue: |
    object: _ @tag(object)
    validate: {valid: object.spec.restartPolicy != "x" && object.spec.containers[0].imagePullPolicy != "x", reason: "no"}`},
	} {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			c := compile.Policy(policy(t, test.kind, []byte(test.spec)))
			for _, p := range append(c.Problems, trial.Problems(t.Context(), c)...) {
				t.Error(p)
			}
		})
	}
}

// TestTrialsEnd: after its timeout, a trial returns the results so far, and nothing false.
func TestTrialsEnd(t *testing.T) {
	t.Parallel()
	c := compile.Policy(policy(t, "ClusterValidatePolicy", []byte(`
resourceSelectors: [{apiVersion: v1, kind: Pod}]
validateRules:
- cue: |
    object: _ @tag(object)
    validate: {valid: object.metadata.labels.team != "", reason: "no"}`)))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if problems := trial.Problems(ctx, c); len(problems) != 0 {
		t.Errorf("problems %v of a trial without time", problems)
	}
}

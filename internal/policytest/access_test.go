package policytest_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/usher-dev/usher/internal/policytest"
)

func TestAuthorizationCases(t *testing.T) {
	t.Parallel()
	policytest.Run(t, "testdata/authz")
}

// Nothing in our own policies can be left out without a case that fails.
func TestOwnCasesExerciseEverything(t *testing.T) {
	t.Parallel()
	tests, err := policytest.Tests("testdata/authz/own.yaml")
	if err != nil {
		t.Fatal(err)
	}
	coverage, err := policytest.Cover(t.Context(), tests)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range coverage {
		if len(c.Missing) > 0 || c.Policies.Total == 0 {
			t.Errorf("%s: %d policies, not exercised: %q", c.Set, c.Policies.Total, c.Missing)
		}
	}
	if m := mutantsOf(t, tests); len(m.Survivors) > 0 || m.Total < 30 {
		t.Errorf("of %d mutants no case notices %v", m.Total, m.Survivors)
	}
}

const teamPolicies = `
apiVersion: usher.dev/v1alpha1
kind: ClusterAuthorizationPolicy
metadata: {name: read}
spec:
  effect: Allow
  subjects: [{groups: [devs]}]
  excludeSubjects: [{users: [mallory]}]
  rules:
  - {verbs: [get], apiGroups: [""], resources: [pods]}
  - {verbs: [get], apiGroups: [""], resources: [services]}
  when: [{name: not-prod, cel: "request.namespace != 'prod'"}]
`

// inFolder writes files and returns the folder.
func inFolder(t *testing.T, files map[string]string) string {
	t.Helper()
	folder := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

func TestSuiteOfFiles(t *testing.T) {
	t.Parallel()
	folder := inFolder(t, map[string]string{
		"policies.yaml": teamPolicies,
		"team.yaml": `
policies: [policies.yaml]
cases:
- {name: a pod, user: n, groups: [devs], verb: get, resource: pods, namespace: y, objname: n, want: Allow, by: read}
- {name: in prod, user: n, groups: [devs], verb: get, resource: pods, namespace: prod, objname: n, want: NoOpinion}
`,
	})
	tests, err := policytest.Tests(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range tests {
		if r := test.Run(t.Context()); r.Status != policytest.Passed {
			t.Errorf("%s: %s", r.Name, r.Message)
		}
	}
	coverage, err := policytest.Cover(t.Context(), tests)
	if err != nil {
		t.Fatal(err)
	}
	want := []policytest.Coverage{{
		Set: "team", File: filepath.Join(folder, "team.yaml"),
		Policies: policytest.Share{Exercised: 1, Total: 1}, Rules: policytest.Share{Exercised: 1, Total: 2},
		Conditions: policytest.Share{Exercised: 1, Total: 1},
		Missing:    []string{"ClusterAuthorizationPolicy read spec.rules[1]: decides no case"},
	}}
	if diff := cmp.Diff(want, coverage); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	mutants := mutantsOf(t, tests)
	var survivors []string
	for _, s := range mutants.Survivors {
		survivors = append(survivors, s.Without)
	}
	wantSurvivors := []string{
		"ClusterAuthorizationPolicy read spec.excludeSubjects[0]",
		"ClusterAuthorizationPolicy read spec.rules[1]",
	}
	if diff := cmp.Diff(wantSurvivors, survivors); diff != "" || mutants.Total != 5 {
		t.Errorf("of %d mutants, survivors -want +got:\n%s", mutants.Total, diff)
	}
}

func TestSuiteFaults(t *testing.T) {
	t.Parallel()
	const suite = `
policies:
- {name: read, effect: Allow, subjects: [{groups: [devs]}], rules: [{verbs: [get], apiGroups: [""], resources: [pods]}]}
- {name: trial, effect: Deny, enforcement: Audit, subjects: [{groups: [devs]}], rules: [{verbs: [get], apiGroups: [""], resources: [pods]}]}
cases:
- {name: x, user: jane, groups: [devs], verb: get, resource: pods, namespace: a, objname: p, `
	for _, test := range []struct{ reason, end, want string }{
		{"another answer", "want: Deny}", "expected Deny, got Allow\ncluster Deny ClusterAuthorizationPolicy trial spec.rules[0]: get of pods in group \"\": not enforced, its enforcement is Audit\ncluster Allow ClusterAuthorizationPolicy read"},
		{"another policy", "want: Allow, by: other}", "expected that other decides, it is [read]"},
		{"a denial that is not enforced", "want: Allow, wouldDeny: false}", "expected wouldDeny: false, got true"},
		{"no error", "want: Allow, error: true}", "expected error: true, got false"},
		{"another reason", "want: Allow, reason: because}", `expected a reason with "because", got "allowed by policy read (cluster)"`},
		{"nothing near", "want: Allow}\n- {name: y, verb: put, path: /x, want: Allow}", "no policy comes near the request"},
	} {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			tests, err := policytest.Tests(inFolder(t, map[string]string{"suite.yaml": suite + test.end}))
			if err != nil {
				t.Fatal(err)
			}
			var messages string
			for _, test := range tests {
				messages += test.Run(t.Context()).Message + "\n"
			}
			if !strings.Contains(messages, test.want) {
				t.Errorf("got %q, want %q", messages, test.want)
			}
		})
	}
}

func TestSuitesThatCannotRun(t *testing.T) {
	t.Parallel()
	const policy = `policies: [{name: a, effect: Allow, subjects: [{users: [x]}], rules: [{verbs: [get], apiGroups: [""], resources: [pods]}]}]`
	for _, test := range []struct{ reason, text, want string }{
		{"no cases", policy + "\ncases: []", "cases: there is none"},
		{"no name", policy + "\ncases: [{verb: get, resource: pods, want: Allow}]", "name: missing"},
		{"no answer", policy + "\ncases: [{name: x, verb: get, resource: pods}]", "want: \"\" is none of Allow, Deny and NoOpinion"},
		{"no target", policy + "\ncases: [{name: x, verb: get, want: Allow}]", "resource: missing, and so is path"},
		{"two targets", policy + "\ncases: [{name: x, verb: get, resource: pods, path: /x, want: Allow}]", "a request is for a resource or for a path"},
		{"a field that is not known", policy + "\ncases: [{name: x, verb: get, resource: pods, want: Allow, expect: Allow}]", `unknown field "cases[0].expect"`},
		{"a file that is missing", "policies: [none.yaml]\ncases: [{name: x, verb: get, resource: pods, want: Allow}]", "none.yaml"},
		{"protected users that are none", policy + "\nprotectedUsers: [{serviceAccounts: [x]}]\ncases: [{name: x, verb: get, resource: pods, want: Allow}]", "is no service account"},
	} {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			_, err := policytest.Tests(inFolder(t, map[string]string{"suite.yaml": test.text}))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %q", err, test.want)
			}
		})
	}
}

// A policy that does not compile fails all cases of its suite: one that leaves it out would
// prove nothing.
func TestSuiteWithBrokenPolicy(t *testing.T) {
	t.Parallel()
	tests, err := policytest.Tests(inFolder(t, map[string]string{"suite.yaml": `
policies: [{name: a, effect: Allow, subjects: [{users: [x]}], rules: [{verbs: [get], apiGroups: [""], resources: [pods]}], when: ["request.nothing"]}]
cases: [{name: x, user: y, verb: get, resource: pods, want: NoOpinion}]`}))
	if err != nil {
		t.Fatal(err)
	}
	if r := tests[0].Run(t.Context()); r.Status != policytest.Failed || !strings.Contains(r.Message, "undefined field 'nothing'") {
		t.Errorf("%s: %s", r.Status, r.Message)
	}
}

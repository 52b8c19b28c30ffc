package policytest_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/policytest"
)

// Run is the API for the tests of others: the cases here are their examples.
func TestRun(t *testing.T) {
	t.Parallel()
	policytest.Run(t, "testdata/own")
}

func TestCaseResults(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		reason string
		text   string
		status policytest.Status
		want   string // in the message
	}{
		{
			reason: "a change that is expected and made",
			text: mutateCase + `
expect: {fields: [{path: /metadata/labels/seen, value: "1"}]}`,
			status: policytest.Passed,
		},
		{
			reason: "another value",
			text: mutateCase + `
expect: {allowed: true, fields: [{path: /metadata/labels/seen, value: "2"}]}`,
			status: policytest.Failed, want: `/metadata/labels/seen: expected "2", got "1"`,
		},
		{
			reason: "the type counts",
			text: mutateCase + `
expect: {allowed: true, fields: [{path: /metadata/labels/seen, value: 1}]}`,
			status: policytest.Failed, want: `/metadata/labels/seen: expected 1, got "1"`,
		},
		{
			reason: "a field that is there and should not",
			text: mutateCase + `
expect: {allowed: true, fields: [{path: /metadata/labels/seen, absent: true}]}`,
			status: policytest.Failed, want: `/metadata/labels/seen: expected to be absent, got "1"`,
		},
		{
			reason: "a field that is not there",
			text: mutateCase + `
expect: {allowed: true, fields: [{path: /metadata/labels/gone, nonEmpty: true}]}`,
			status: policytest.Failed, want: `/metadata/labels/gone: expected something that is not empty, is absent`,
		},
		{
			reason: "null is present",
			text: mutateCase + `
expect: {allowed: true, fields: [{path: /metadata/annotations, value: null}]}`,
			status: policytest.Failed, want: `/metadata/annotations: expected null, is absent`,
		},
		{
			reason: "regular expressions match anywhere",
			text: mutateCase + `
expect: {allowed: true, fields: [{path: /metadata/name, matches: ^ca}, {path: /metadata/name, matches: "^a"}]}`,
			status: policytest.Failed, want: `/metadata/name: expected something that matches "^a", got "cart"`,
		},
		{
			reason: "the whole object",
			text: mutateCase + `
expect:
  allowed: true
  patchedObject: {apiVersion: v1, kind: Pod, metadata: {name: cart, labels: {other: "1"}}}`,
			status: policytest.Failed,
			want:   "/metadata/labels/other: expected \"1\", is absent\n/metadata/labels/seen: expected to be absent, got \"1\"",
		},
		{
			reason: "a patch where none is expected",
			text: mutateCase + `
expect: {allowed: true, unchanged: true}`,
			status: policytest.Failed, want: `expected no patch, got [{"op":"add"`,
		},
		{
			reason: "betterExpect wins",
			text: mutateCase + `
expect: {panics: true}
betterExpect: {allowed: false}`,
			status: policytest.Failed, want: "expected the request to be denied, it is allowed; ClusterOverridePolicy label spec.overrideRules[0] changed",
		},
		{
			reason: "where another implementation crashes, any answer will do",
			text: mutateCase + `
expect: {panics: true}`,
			status: policytest.Passed,
		},
		{
			reason: "the code of an allowed request is 200",
			text: mutateCase + `
expect: {code: 200}`,
			status: policytest.Passed,
		},
		{
			reason: "no policy matched",
			text: strings.Replace(mutateCase, "kind: Pod, metadata", "kind: Secret, metadata", 1) + `
expect: {allowed: true, fields: [{path: /metadata/labels/seen, absent: true}]}`,
			status: policytest.Failed, want: "passes vacuously: no policy matched",
		},
		{
			reason: "what is allowed because no policy matched says nothing of the policy, and the reason is told",
			text: strings.Replace(mutateCase, "kind: Pod, metadata", "kind: Secret, metadata", 1) + `
expect: {allowed: true}`,
			status: policytest.Failed, want: "note: ClusterOverridePolicy label spec.overrideRules[0]: v1 Secret is not v1 Pod",
		},
		{
			reason: "nor does what is unchanged",
			text: strings.Replace(mutateCase, "kind: Pod, metadata", "kind: Secret, metadata", 1) + `
expect: {unchanged: true}`,
			status: policytest.Failed, want: "passes vacuously: no policy matched; write noMatch: true if that is the point",
		},
		{
			reason: "a rule of another phase",
			text: strings.Replace(mutateCase, "phase: mutate", "phase: validate", 1) + `
expect: {allowed: true}`,
			status: policytest.Failed, want: "is for the phase mutate",
		},
		{
			reason: "no policy matched, and that is the point",
			text: strings.Replace(mutateCase, "kind: Pod, metadata", "kind: Secret, metadata", 1) + `
expect: {allowed: true, noMatch: true}`,
			status: policytest.Passed,
		},
		{
			reason: "noMatch alone says enough",
			text: strings.Replace(mutateCase, "kind: Pod, metadata", "kind: Secret, metadata", 1) + `
expect: {noMatch: true}`,
			status: policytest.Passed,
		},
		{
			reason: "a policy matched that should not",
			text: mutateCase + `
expect: {allowed: true, noMatch: true}`,
			status: policytest.Failed, want: "expected that no rule matches; ClusterOverridePolicy label spec.overrideRules[0] changed",
		},
		{
			reason: "what another implementation answers is recorded as it is",
			text: "class: contract\n" + strings.Replace(mutateCase, "kind: Pod, metadata", "kind: Secret, metadata", 1) + `
expect: {allowed: true}`,
			status: policytest.Passed,
		},
		{
			reason: "a denial by a policy that does not compile",
			text: brokenCase + `
expect: {allowed: false}`,
			status: policytest.Failed, want: "a policy does not compile",
		},
		{
			reason: "which may be the point",
			text: brokenCase + `
expect: {allowed: false, code: 500}`,
			status: policytest.Passed,
		},
		{
			reason: "what is wrong with a policy is said, not what its answer would be",
			text: brokenCase + `
expect: {allowed: true}`,
			status: policytest.Failed, want: "not run: a policy does not compile; correct it, or expect code: 500 if that is the point\nerror: ClusterValidatePolicy broken: ",
		},
		{
			reason: "skipped",
			text: mutateCase + `
skip: not today
expect: {allowed: true}`,
			status: policytest.Skipped, want: "not today",
		},
	} {
		t.Run(row.reason, func(t *testing.T) {
			t.Parallel()
			cases, err := policytest.Load(write(t, row.text))
			if err != nil {
				t.Fatal(err)
			}
			got := cases[0].Run(t.Context())
			if got.Status != row.status || !strings.Contains(got.Message, row.want) {
				t.Errorf("result is %s: %s\nwant %s: %s", got.Status, got.Message, row.status, row.want)
			}
		})
	}
}

func TestLoadRefuses(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ reason, text, want string }{
		{"an unknown field", mutateCase + "\nexpect: {alowed: true}", `:16: unknown field "expect.alowed": did you mean allowed?`},
		{"an unknown field of the request", strings.Replace(mutateCase, "operation:", "operations: x\n  operation:", 1) + "\nexpect: {allowed: true}", `unknown field "request.operations": did you mean operation?`},
		{"objects, as the flag of usher decide is called", mutateCase + "\nfacts: []\nexpect: {allowed: true}", `unknown field "facts": did you mean objects?`},
		{"a message, as responses have it", mutateCase + "\nexpect: {message: x}", `unknown field "expect.message": did you mean messageContains, or messageEquals for all of it?`},
		{"a user, as reviews have it", strings.Replace(mutateCase, "operation:", "userInfo: {username: jane}\n  operation:", 1) + "\nexpect: {allowed: true}", `unknown field "request.userInfo": did you mean user (name, groups, uid, extra)?`},
		{"an unknown field below a marker", "---\n" + mutateCase + "\nexpect: {alowed: true}", `:17: unknown field "expect.alowed"`},
		{"a field twice", mutateCase + "\nphase: validate\nexpect: {allowed: true}", `"phase" already set`},
		{"no expectation", mutateCase, "expect: missing"},
		{"an expectation that everything meets", mutateCase + "\nexpect: {}", "says nothing"},
		{"a contradiction", mutateCase + "\nexpect: {unchanged: true, fields: [{path: /a, absent: true}]}", "unchanged excludes"},
		{"a field without check", mutateCase + "\nexpect: {fields: [{path: /a}]}", "fields[0]: needs exactly one of"},
		{"a path that is no pointer", mutateCase + "\nexpect: {fields: [{path: a, absent: true}]}", "not a JSON pointer"},
		{"a regular expression that is none", mutateCase + "\nexpect: {fields: [{path: /a, matches: '('}]}", "fields[0]: matches: "},
		{"another phase", strings.Replace(mutateCase, "phase: mutate", "phase: convert", 1) + "\nexpect: {allowed: true}", `phase: "convert"`},
		{"another operation", strings.Replace(mutateCase, "CREATE", "PATCH", 1) + "\nexpect: {allowed: true}", `request.operation: "PATCH"`},
		{"no object", "phase: mutate\nrequest: {operation: CREATE}\nexpect: {allowed: true}", "object is missing"},
		{"a file of policies that is not there", "phase: mutate\npolicyFiles: [nowhere.yaml]\nrequest: {operation: CREATE, object: {}}\nexpect: {allowed: true}", "nowhere.yaml"},
		{"a policy", "apiVersion: policy.kcloudlabs.io/v1alpha1\nkind: OverridePolicy", "not a test case"},
		{"a decision about access that does not exist", mutateCase + "\naccess: [{decision: Allow}]\nexpect: {allowed: true}", `access[0]: decision: "Allow" is none of allow, deny and noOpinion`},
		{"what is not YAML", "a: [", "read "},
		{"an empty file", "", "no test cases found"},
		{"no phase", strings.Replace(mutateCase, "phase: mutate", "", 1) + "\nexpect: {allowed: true}", "phase is missing"},
		{"a file of something else, of which nothing is quoted", "token: s3cret\nuser: root", "case.yaml: not a test case"},
		{"more documents than tests are", strings.Repeat("---\na\n", 100_001), "more than 100000 documents"},
		{"the second document, with the line breaks of Windows", "# a\r\n\r\n---\r\n" + strings.ReplaceAll(mutateCase, "\n", "\r\n") + "\r\nexpect: {alowed: true}", `case.yaml:19: unknown`},
	} {
		t.Run(row.reason, func(t *testing.T) {
			t.Parallel()
			_, err := policytest.Load(write(t, row.text))
			if err == nil || !strings.Contains(err.Error(), row.want) {
				t.Errorf("error is %v, want %q in it", err, row.want)
			}
		})
	}
}

func TestLoadLeavesObjectsInFoldersAlone(t *testing.T) {
	t.Parallel()
	cases, err := policytest.Load("testdata/own")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range cases {
		names = append(names, c.Name)
	}
	want := []string{"labelled", "secrets-stay-as-they-are", "team-from-the-service", "nobody-at-home"}
	if d := cmp.Diff(want, names); d != "" {
		t.Errorf("names (-want +got):\n%s", d)
	}
}

func TestRequestFor(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		reason, apiVersion, kind, want string
		request                        policytest.Request
	}{
		{reason: "core group", apiVersion: "v1", kind: "Pod", want: "/v1 pods "},
		{reason: "a group", apiVersion: "apps/v1", kind: "Deployment", want: "apps/v1 deployments "},
		{reason: "y", apiVersion: "networking.k8s.io/v1", kind: "NetworkPolicy", want: "networking.k8s.io/v1 networkpolicies "},
		{reason: "vowel and y", apiVersion: "g/v1", kind: "Gateway", want: "g/v1 gateways "},
		{reason: "ss", apiVersion: "networking.k8s.io/v1", kind: "Ingress", want: "networking.k8s.io/v1 ingresses "},
		{reason: "irregular", apiVersion: "v1", kind: "Endpoints", want: "/v1 endpoints "},
		{reason: "a subresource", apiVersion: "v1", kind: "PodExecOptions", want: "/v1 pods exec"},
		{
			reason: "said", apiVersion: "autoscaling/v1", kind: "Scale", want: "autoscaling/v1 deployments scale",
			request: policytest.Request{Resource: "deployments", Subresource: "scale"},
		},
	} {
		t.Run(row.reason, func(t *testing.T) {
			t.Parallel()
			row.request.Object = map[string]any{"apiVersion": row.apiVersion, "kind": row.kind}
			r, err := row.request.For(usher.Validate)
			if err != nil {
				t.Fatal(err)
			}
			got := r.Resource.Group + "/" + r.Resource.Version + " " + r.Resource.Resource + " " + r.Subresource
			if got != row.want || r.Kind.Kind != row.kind || r.Phase != usher.Validate {
				t.Errorf("got %s for kind %s in phase %s, want %s", got, r.Kind, r.Phase, row.want)
			}
		})
	}
}

func TestResultAsJSON(t *testing.T) {
	t.Parallel()
	got, err := json.Marshal(policytest.Report{Name: "n", File: "f", Status: policytest.Passed, Took: 1})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(`{"name":"n","file":"f","status":"passed","message":""}`, string(got)); d != "" {
		t.Errorf("JSON (-want +got):\n%s", d)
	}
}

func BenchmarkCase(b *testing.B) {
	cases, err := policytest.Load("testdata/own/label.yaml")
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if r := cases[0].Run(b.Context()); r.Status != policytest.Passed {
			b.Fatal(r.Message)
		}
	}
}

const mutateCase = `name: case
phase: mutate
policies:
- apiVersion: policy.kcloudlabs.io/v1alpha1
  kind: ClusterOverridePolicy
  metadata: {name: label}
  spec:
    resourceSelectors:
    - {apiVersion: v1, kind: Pod}
    overrideRules:
    - overriders:
        plaintext: [{path: /metadata/labels/seen, op: add, value: "1"}]
request:
  operation: CREATE
  object: {apiVersion: v1, kind: Pod, metadata: {name: cart, labels: {}}}`

const brokenCase = `name: case
phase: validate
policies:
- apiVersion: policy.kcloudlabs.io/v1alpha1
  kind: ClusterValidatePolicy
  metadata: {name: broken}
  spec:
    validateRules:
    - cue: "validate: {"
request:
  operation: CREATE
  object: {apiVersion: v1, kind: Pod, metadata: {name: cart, labels: {}}}`

func write(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "case.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestCasesWithoutTime runs cases of one file whose first has no time left: the policy that they share
// is none that was compiled halfway.
func TestCasesWithoutTime(t *testing.T) {
	t.Parallel()
	tests, err := policytest.Tests("../../examples/object-policies/cases")
	if err != nil {
		t.Fatal(err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for _, test := range tests {
		test.Run(over)
		if result := test.Run(t.Context()); result.Status != policytest.Passed {
			t.Errorf("%s: %s: %s", test.Name, result.Status, result.Message)
		}
	}
}

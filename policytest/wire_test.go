package policytest_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/usher-dev/usher/policytest"
)

// Each format notices what is not as its file says. The second row of a pair is the same
// with the right expectation, so that the fault is the one that is meant.
func TestFormatsNotice(t *testing.T) {
	t.Parallel()
	const roles = `- set: s
  objects:
  - {kind: ClusterRole, metadata: {name: r}, rules: [{verbs: [get], apiGroups: [""], resources: [pods]}]}
  - {kind: ClusterRoleBinding, metadata: {name: b}, roleRef: {kind: ClusterRole, name: r}, subjects: [{kind: User, name: jane}]}
  cases:
  - {name: c, user: jane, verb: get, resource: pods, `
	for _, row := range []struct{ reason, text, want string }{
		{"RBAC", roles + `want: NoOpinion}`, "expected NoOpinion, got Allow"},
		{"RBAC", roles + `want: Allow, reason: "of ClusterRole"}`, ""},
		{"RBAC's reason", roles + `want: Allow, reason: "of Role"}`, "expected a reason with"},
		{"a request line", `- {method: GET, url: /api/v1/pods, verb: get, version: v1, resource: pods}`, `got {"method":"GET","url":"/api/v1/pods","verb":"list"`},
		{"a request line", `- {method: GET, url: /api/v1/pods, verb: list, version: v1, resource: pods}`, ""},
		{"a request line that is none", `- {method: GET, url: pods, verb: get}`, "parse URL"},
		{"a chain", `- {name: c, chain: [NoOpinion+err, Allow], want: NoOpinion, http: 500}`, "expected NoOpinion, got Allow\nexpected the HTTP status 500, got 200"},
		{"a chain", `- {name: c, chain: [NoOpinion+err, Allow], want: Allow, http: 200}`, ""},
		{"a chain of something else", `- {name: c, chain: [Maybe], want: Allow}`, `chain[0]: "Maybe"`},
		{"a status", `- {name: c, path: /nowhere, want: {status: 200}}`, "expected the status 200: 404"},
		{"a status", `- {name: c, path: /nowhere, want: {status: 404}}`, ""},
		{"a method", `- {name: c, method: GET, want: {status: 405}}`, ""},
		{"a large body", `- {name: c, bodyBytes: 1048577, want: {status: 413}}`, ""},
		{"a verdict", `- {name: c, want: {status: 200, allowed: false}}`, "expected allowed to be false"},
		{"a verdict", `- {name: c, want: {status: 200, allowed: true, denied: false, spec: absent, evaluationError: absent}}`, ""},
		{"a verdict of no review", `- {name: c, state: error, want: {status: 503, allowed: false}}`, "expected a review"},
		{"an error", `- {name: c, want: {evaluationError: present}}`, "expected evaluationError to be present"},
		{"a reason", `- {name: c, state: huge-message, want: {reasonBytesAtMost: 10}}`, "expected a reason of at most 10 bytes, it has 1024"},
		{"a reason", `- {name: c, state: deny, want: {reasonMustNotContain: [no-pods]}}`, "expected a reason without no-pods"},
		{"a reason", `- {name: c, state: deny, want: {reason: no-pods}}`, ""},
		{"what is never so", `- {name: c, want: {allowedNeverTrue: true}}`, "expected never to allow"},
		{"what is never so", `- {name: c, path: /authorize/deny, want: {allowedNeverTrue: true}}`, ""},
		{"a handshake", `- {name: c, tls: ok, want: {handshake: fails}}`, "expected the handshake to fail"},
		{"a handshake", `- {name: c, tls: ok, want: {status: 200, allowed: true}}`, ""},
		{"no handshake", `- {name: c, tls: otherCA, want: {status: 401}}`, "expected an answer"},
		{"too much to do", `- {name: c, state: overload, want: {status: 503, retryAfter: absent}}`, ""},
		{"no policies", `- {name: c, state: not-ready, want: {status: 503}}`, ""},
		{"one snapshot", `- {name: c, state: reload, want: {everyAnswerFromOneSnapshot: true, denied: false}}`, "expected denied to be false"},
		{"an unknown state", `- {name: c, state: asleep, want: {status: 200}}`, `state: "asleep" is not known`},
		{"an unknown caller", `- {name: c, tls: strange, want: {status: 200}}`, `tls: "strange"`},
		{"an unknown field", `- {name: c, stats: asleep, want: {status: 200}}`, "stats: not known"},
		{"an unknown expectation", `- {name: c, want: {statuses: 200}}`, "statuses: not known"},
		{"an answer that is misunderstood", `- {name: c, version: v1, status: 200, body: $OK, want: Deny, calls: 1}`, "expected an API server to understand Allow, it takes it for Deny"},
		{"an answer that is asked for again", `- {name: c, version: v1, status: 503, body: x, want: NoOpinion, calls: 5, err: true}`, "expected never to answer so"},
		{"an answer of ours", `- {name: c, version: v1beta1, status: 200, body: $OKBETA, want: Allow, calls: 1}`, ""},
		{"an answer that is never given", `- {name: c, version: v1, status: 429, body: x, want: NoOpinion, calls: 5, err: true}`, ""},
	} {
		t.Run(row.reason, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "tests.yaml")
			if err := os.WriteFile(file, []byte(row.text), 0o600); err != nil {
				t.Fatal(err)
			}
			tests, err := policytest.Tests(file)
			if err != nil {
				t.Fatal(err)
			}
			got := tests[0].Run(t.Context())
			if row.want == "" && got.Status != policytest.Passed || row.want != "" && (got.Status != policytest.Failed || !strings.Contains(got.Message, row.want)) {
				t.Errorf("%s\n%s: %s\nwant %q", row.text, got.Status, got.Message, row.want)
			}
		})
	}
}

// What Kubernetes does with RBAC objects, request lines, chains and answers is recorded in
// these files; what our webhook has to answer, too.
func TestAuthorizationAsRecorded(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"rbac", "requestinfo", "chain", "wire-server", "apiserver-client"} {
		policytest.Run(t, "testdata/authz/"+name+".yaml")
	}
}

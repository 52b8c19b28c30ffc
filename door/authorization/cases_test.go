package authorization_test

import (
	"bytes"
	"context"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/usher-dev/usher/internal/policytest"
)

// folder is where case files are. Documents of other formats in it are left out.
var folder = flag.String("cases", "testdata/cases", "folder with case files")

// A caseTest is one case of a file.
type caseTest struct {
	name   string
	faults func(context.Context) []string
}

// What has to be true of the webhooks' answers is recorded in these files, and what API servers
// make of answers.
func TestCases(t *testing.T) {
	t.Parallel()
	tests := loadCases(t, *folder)
	if len(tests) == 0 {
		t.Fatalf("no cases in %s", *folder)
	}
	for _, c := range tests {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if faults := c.faults(t.Context()); len(faults) > 0 {
				t.Error(strings.Join(faults, "\n"))
			}
		})
	}
}

func loadCases(t *testing.T, path string) []caseTest {
	t.Helper()
	documents, err := policytest.Documents(path)
	if err != nil {
		t.Fatal(err)
	}
	var all []caseTest
	for _, d := range documents {
		var load func(policytest.Document) ([]caseTest, error)
		fields, list := d.Head()
		switch {
		case !list || fields["name"] == nil:
			continue
		case bytes.HasPrefix(bytes.TrimSpace(fields["want"]), []byte("{")):
			load = wireCases
		case fields["status"] != nil && fields["calls"] != nil:
			load = clientCases
		default:
			continue
		}
		tests, err := load(d)
		if err != nil {
			t.Fatalf("load %s: %v", d.File, err)
		}
		all = append(all, tests...)
	}
	return all
}

// Each format notices what is not as its file says. The second row of a pair is the same
// with the right expectation, so that the fault is the one that is meant.
func TestFormatsNotice(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ reason, text, want string }{
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
			got := strings.Join(loadCases(t, file)[0].faults(t.Context()), "\n")
			if (row.want == "") != (got == "") || !strings.Contains(got, row.want) {
				t.Errorf("%s: got %q, want %q", row.text, got, row.want)
			}
		})
	}
}

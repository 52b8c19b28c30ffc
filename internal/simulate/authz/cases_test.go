package authz_test

import (
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

// What Kubernetes does with RBAC objects, request lines, selectors and chains is recorded in
// these files.
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
		switch {
		case has(d, "objects", "cases"):
			load = rbacCases
		case has(d, "method", "url"):
			load = requestLineCases
		case has(d, "policy", "request", "want"):
			load = selectorCases
		case has(d, "chain", "want"):
			load = chainCases
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

// has reports whether a document is a list of items with these fields.
func has(d policytest.Document, names ...string) bool {
	fields, list := d.Head()
	for _, name := range names {
		list = list && fields[name] != nil
	}
	return list
}

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

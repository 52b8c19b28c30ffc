package write_test

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/cmd/usher/internal/write"
)

// resources answers discovery, and lists one policy on each of two pages.
func resources(broken string) http.HandlerFunc {
	const group = `{"kind":"APIGroupList","apiVersion":"v1","groups":[%s]}`
	of := func(name string) string {
		return fmt.Sprintf(`{"name":%q,"versions":[{"groupVersion":"%s/v1","version":"v1"}],"preferredVersion":{"groupVersion":"%s/v1","version":"v1"}}`, name, name, name)
	}
	policy := func(name string) string {
		return fmt.Sprintf(`{"apiVersion":"policies.kyverno.io/v1","kind":"ValidatingPolicy","metadata":{"name":%q,"managedFields":[{"manager":"x"}]},"status":{"ready":true},`+
			`"spec":{"matchConstraints":{"resourceRules":[{"apiGroups":["example.com"],"apiVersions":["v1"],"operations":["CREATE"],"resources":["gadgets"]}]},"validations":[{"expression":"has(object.spec)"}]}}`, name)
	}
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch path := r.URL.Path; {
		case r.Method != http.MethodGet:
			w.WriteHeader(http.StatusForbidden)
		case path == "/api":
			_, _ = fmt.Fprint(w, `{"kind":"APIVersions","versions":["v1"]}`)
		case path == "/api/v1":
			_, _ = fmt.Fprint(w, `{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"pods","namespaced":true,"kind":"Pod","verbs":["list"]}]}`)
		case path == "/apis":
			_, _ = fmt.Fprintf(w, group, of("policies.kyverno.io")+","+of("metrics.example.com"))
		case strings.HasPrefix(path, "/apis/"+broken):
			w.WriteHeader(http.StatusServiceUnavailable)
		case path == "/apis/policies.kyverno.io/v1":
			_, _ = fmt.Fprint(w, `{"kind":"APIResourceList","groupVersion":"policies.kyverno.io/v1","resources":[{"name":"validatingpolicies","kind":"ValidatingPolicy","verbs":["list"]},{"name":"validatingpolicies/status","kind":"ValidatingPolicy","verbs":["get"]}]}`)
		case path == "/apis/metrics.example.com/v1":
			_, _ = fmt.Fprint(w, `{"kind":"APIResourceList","groupVersion":"metrics.example.com/v1","resources":[]}`)
		case path == "/apis/policies.kyverno.io/v1/validatingpolicies" && r.URL.Query().Get("continue") == "":
			_, _ = fmt.Fprintf(w, `{"kind":"ValidatingPolicyList","apiVersion":"policies.kyverno.io/v1","metadata":{"continue":"next"},"items":[%s]}`, policy("first"))
		case path == "/apis/policies.kyverno.io/v1/validatingpolicies":
			_, _ = fmt.Fprintf(w, `{"kind":"ValidatingPolicyList","apiVersion":"policies.kyverno.io/v1","metadata":{},"items":[%s]}`, policy("second"))
		case path == "/apis/apiextensions.k8s.io/v1/customresourcedefinitions":
			_, _ = fmt.Fprint(w, `{"kind":"CustomResourceDefinitionList","apiVersion":"apiextensions.k8s.io/v1","metadata":{},"items":[]}`)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}
}

// TestImportFromCluster reads policies from an API server, and sends nothing but reads.
func TestImportFromCluster(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		reason, broken string
		more           []string
		status         int
		out, err       string
	}{
		{"all pages", "none", nil, 0, "name: second", "ValidatingPolicy first: converted to ClusterObjectPolicy first"},
		{"an API that is away", "metrics.example.com", nil, 0, "name: second", "2 converted, 0 left out"},
		{"the API of the policies is away", "policies.kyverno.io", nil, cli.ExitUnusable, "", "discover the resources of the cluster: policies.kyverno.io/v1"},
		{"what may not be read", "apiextensions.k8s.io", nil, cli.ExitUnusable, "", "list customresourcedefinitions.apiextensions.k8s.io"},
		{"files, too", "none", []string{"policy.yaml"}, cli.ExitUnusable, "", "--from-cluster and files exclude each other"},
	} {
		t.Run(row.reason, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			var wrote []string
			serve := resources(row.broken)
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method != http.MethodGet {
					mu.Lock()
					wrote = append(wrote, r.Method+" "+r.URL.Path)
					mu.Unlock()
				}
				serve(w, r)
			}))
			defer server.Close()
			kubeconfig := filepath.Join(t.TempDir(), "config")
			text := fmt.Sprintf("apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: %q}}]\ncontexts: [{name: c, context: {cluster: c, user: u}}]\nusers: [{name: u, user: {}}]\ncurrent-context: c\n", server.URL)
			if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			var out, errs bytes.Buffer
			cmd := write.Import(cli.Streams{In: strings.NewReader(""), Out: &out, Err: &errs})
			cmd.SetArgs(append([]string{"kyverno", "--from-cluster", "--kubeconfig", kubeconfig}, row.more...))
			cmd.SilenceErrors, cmd.SilenceUsage = true, true
			status := 0
			if err := cmd.ExecuteContext(t.Context()); err != nil {
				status = cli.ExitUnusable
				errs.WriteString(err.Error())
			}
			if status != row.status || !strings.Contains(out.String(), row.out) || !strings.Contains(errs.String(), row.err) || len(wrote) > 0 {
				t.Errorf("status %d, wrote %v\n%s\n%s", status, wrote, out.String(), errs.String())
			}
		})
	}
}

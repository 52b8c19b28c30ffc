package serve_test

import (
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/usher-dev/usher/api/kcloudlabs/v1alpha1"
	"github.com/usher-dev/usher/internal/delegated/delegatedtest"
	"github.com/usher-dev/usher/internal/serve"
)

// broken is a policy of a tenant with a problem that quotes it.
const broken = `apiVersion: policy.kcloudlabs.io/v1alpha1
kind: OverridePolicy
metadata: {name: tenants-secret-plan, namespace: tenant-a}
spec:
  resourceSelectors:
  - {apiVersion: v1, kind: ConfigMap}
  overrideRules:
  - overriders: {cue: "tenants-secret-plan: }"}
`

// fetch gets a page of the webhook port with a token, if it is not empty.
func (h *harness) fetch(path, token string) (string, int) {
	h.t.Helper()
	r, err := http.NewRequestWithContext(h.t.Context(), http.MethodGet, h.server.URL()+path, nil)
	if err != nil {
		h.t.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	body, response := h.answer(h.client.Do(r))
	if response == nil {
		h.t.Fatal(body)
	}
	return body, response.StatusCode
}

// named matches what only callers may read that may know names.
var named = regexp.MustCompile(`tenants-secret-plan|tenant-a|require-label|https://fake|usher-system|/forbidden/`)

func TestNamesAreForThoseWhoMayKnowThem(t *testing.T) {
	t.Parallel()
	users := delegatedtest.NewCluster(t)
	users.GrantPath("monitoring", "/metrics")
	users.GrantPath("operator", "/readyz/verbose")
	users.GrantPath("tenant", "/readyz")
	f := newFakeCluster()
	f.config.Clients.Readers = users.Client
	f.apply(t, overrides, strings.ReplaceAll(label("one"), "name: label", "name: require-label"))
	f.apply(t, v1alpha1.GroupVersion.WithResource("overridepolicies"), broken)
	h := f.join(t, serve.Exposed(serve.Config{}))
	token := func(user string) string { return users.Token(user, delegatedtest.ServerAudience) }
	h.eventually("the policy is in force", func() bool {
		page, _ := h.fetch("/readyz?verbose", token("operator"))
		return strings.Contains(page, "ClusterOverridePolicy: 1") && strings.Contains(page, "OverridePolicy tenant-a/tenants-secret-plan")
	})
	for _, row := range []struct {
		reason, path, token string
		code                int
		names               bool
		says                string
	}{
		{"probes need nothing", "/readyz", "", http.StatusOK, false, "ok"},
		{"a probe with any token is a probe", "/readyz", "forged", http.StatusOK, false, "ok"},
		{"anybody reads numbers", "/readyz?verbose", "", http.StatusOK, false, "names are withheld"},
		{"anybody reads that there are problems", "/readyz?verbose", "", http.StatusOK, false, "problems: 2\n"},
		{"the right is there", "/readyz?verbose", token("operator"), http.StatusOK, true, "problems: 2\n"},
		{"the right to probe, which everybody has in a cluster, is not that", "/readyz?verbose", token("tenant"), http.StatusForbidden, false, `cannot get path \"/readyz/verbose\"`},
		{"nor is the right to metrics", "/readyz?verbose", token("monitoring"), http.StatusForbidden, false, ""},
		{"a token of nobody", "/readyz?verbose", "forged", http.StatusUnauthorized, false, ""},
		{"a token for the API of Usher is none for this", "/readyz?verbose", users.Token("operator", delegatedtest.Audience), http.StatusUnauthorized, false, ""},
		{"metrics with names", "/metrics", token("monitoring"), http.StatusOK, true, "usher_policy_denials_total"},
		{"nobody asks for metrics here", "/metrics", "", http.StatusUnauthorized, false, ""},
		{"another right", "/metrics", token("operator"), http.StatusForbidden, false, ""},
	} {
		page, code := h.fetch(row.path, row.token)
		if code != row.code || named.MatchString(page) != row.names || !strings.Contains(page, row.says) {
			t.Errorf("%s: %s answers %d, want %d, names %v, and %q:\n%s", row.reason, row.path, code, row.code, row.names, row.says, page)
		}
	}
	if open := h.metrics(); named.MatchString(open) || !strings.Contains(open, `usher_policy_denials_total{policy_kind="ClusterOverridePolicy"} 0`) {
		t.Errorf("the port of metrics, which knows no callers, says:\n%s", open)
	}
	users.Down(true)
	if page, code := h.fetch("/readyz?verbose", token("operator")); code != http.StatusServiceUnavailable || named.MatchString(page) {
		t.Errorf("without API server the answer is %d:\n%s", code, page)
	}
	h.stop()
}

// Without a cluster nobody says who may know names, except that programs on this machine may.
func TestNamesWithoutACluster(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "p.yaml"), broken+"---\n"+strings.ReplaceAll(label("one"), "name: label", "name: require-label"))
	for _, row := range []struct {
		reason string
		config serve.Config
		names  bool
	}{
		{"only this machine reaches the ports", serve.Config{Policies: []string{dir}}, true},
		{"others reach them", serve.Exposed(serve.Config{Policies: []string{dir}}), false},
	} {
		h := start(t, row.config)
		h.eventually("policies are read", func() bool { return strings.Contains(h.get("/readyz?verbose"), "problems: 2") })
		// The metrics follow the page.
		h.eventually("metrics have names", func() bool { return named.MatchString(h.metrics()) == row.names })
		for path, page := range map[string]string{"/readyz?verbose": h.get("/readyz?verbose"), "/metrics": h.metrics()} {
			if named.MatchString(page) != row.names {
				t.Errorf("%s: %s, want names %v:\n%s", row.reason, path, row.names, page)
			}
		}
		if h.status("/metrics") == http.StatusOK {
			t.Errorf("%s: metrics are at the port of webhooks, where nobody is known", row.reason)
		}
		h.stop()
	}
}

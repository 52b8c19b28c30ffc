package serve_test

import (
	"crypto/tls"
	"encoding/json"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/usher-dev/usher/internal/serve"
)

const accessPolicies = `
apiVersion: usher.dev/v1alpha1
kind: ClusterAuthorizationPolicy
metadata: {name: no-secrets}
spec:
  effect: Deny
  subjects: [{groups: [devs]}]
  rules: [{verbs: [get], apiGroups: [""], resources: [secrets]}]
---
apiVersion: usher.dev/v1alpha1
kind: ClusterAuthorizationPolicy
metadata: {name: pods}
spec:
  effect: Allow
  subjects: [{groups: [devs]}]
  rules: [{verbs: [get], apiGroups: [""], resources: [pods]}]
`

const review = `{"kind":"SubjectAccessReview","apiVersion":"authorization.k8s.io/v1","metadata":{},"spec":{"resourceAttributes":` +
	`{"namespace":"shop","verb":"get","version":"v1","resource":"RESOURCE","name":"x"},"user":"jane","groups":["devs","system:authenticated"]},"status":{"allowed":false}}`

// ask asks an authorization webhook about a resource. Without an answer the status is 0.
func (h *harness) ask(client *http.Client, path, resource string) (status int, allowed, denied bool) {
	response, err := client.Post(h.server.AuthorizationURL()+path+"?timeout=3s", "application/json", strings.NewReader(strings.Replace(review, "RESOURCE", resource, 1)))
	if err != nil {
		return 0, false, false
	}
	defer func() { _ = response.Body.Close() }()
	var answer struct {
		Status struct{ Allowed, Denied bool }
	}
	body, _ := io.ReadAll(response.Body)
	_ = json.Unmarshal(body, &answer)
	return response.StatusCode, answer.Status.Allowed, answer.Status.Denied
}

// TestAuthorization asks every endpoint, as callers that are known and as others, and
// looks for what is counted and logged.
func TestAuthorization(t *testing.T) {
	t.Parallel()
	ours, theirs := newAuthority(t), newAuthority(t)
	dir := t.TempDir()
	caFile := filepath.Join(dir, "clients.crt")
	write(t, caFile, string(ours.pem))
	policies := t.TempDir()
	write(t, filepath.Join(policies, "policies.yaml"), accessPolicies)
	h := start(t, serve.Config{
		Policies: []string{policies}, Listen: serve.Listening{MetricsAddress: "127.0.0.1:0"},
		Authorization: &serve.Authorization{Address: "127.0.0.1:0", Callers: serve.Callers{ClientCAFile: caFile, ClientNames: []string{"kube-apiserver"}}},
	})
	known := h.as(ours.issue(t, "kube-apiserver"))
	h.eventually("the policies are in force", func() bool {
		status, _, denied := h.ask(known, "/authorize", "secrets")
		return status == http.StatusOK && denied
	})
	for _, row := range []struct {
		path, resource  string
		allowed, denied bool
	}{
		{"/authorize", "pods", true, false},
		{"/authorize", "secrets", false, true},
		{"/authorize/deny", "pods", false, false},
		{"/authorize/deny", "secrets", false, true},
		{"/authorize/allow", "pods", true, false},
		{"/authorize/allow", "secrets", false, false},
	} {
		if status, allowed, denied := h.ask(known, row.path, row.resource); status != http.StatusOK || allowed != row.allowed || denied != row.denied {
			t.Errorf("%s about %s: %d, allowed %t, denied %t", row.path, row.resource, status, allowed, denied)
		}
	}
	for _, row := range []struct {
		reason      string
		certificate *tls.Certificate
		path        string
		want        int
	}{
		{"no certificate", nil, "/authorize", 0},
		{"another CA", theirs.issue(t, "kube-apiserver"), "/authorize", 0},
		{"another name", ours.issue(t, "system:node:n1"), "/authorize", http.StatusUnauthorized},
		{"another path", ours.issue(t, "kube-apiserver"), "/authorize/", http.StatusNotFound},
		{"a door that is elsewhere", ours.issue(t, "kube-apiserver"), "/validate", http.StatusNotFound},
	} {
		client := h.as(row.certificate)
		if status, _, _ := h.ask(client, row.path, "pods"); status != row.want {
			t.Errorf("%s: %s answers %d, want %d", row.reason, row.path, status, row.want)
		}
		client.CloseIdleConnections()
	}
	if body, response := h.post("/authorize", []byte(review)); response == nil || response.StatusCode != http.StatusNotFound {
		t.Errorf("the admission port answers %v: %s", response, body)
	}
	metrics := h.metrics()
	for _, want := range []string{
		`usher_decisions_total{door="authorization_allow",phase="authorize",verdict="deny"} 1`,
		`usher_decisions_total{door="authorization_deny",phase="authorize",verdict="deny"} 1`,
		`usher_access_requests_total{code="200",endpoint="/authorize/allow"} 2`,
		`usher_policy_denials_total{policy_kind="ClusterAuthorizationPolicy",policy_name="no-secrets",policy_namespace=""}`,
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("metrics have no %s:\n%s", want, metrics)
		}
	}
	if log := h.log.String(); !strings.Contains(log, `"endpoint":"/authorize/deny"`) && !strings.Contains(log, "endpoint=/authorize/deny") {
		t.Errorf("the log does not tell the denial:\n%s", log)
	}
	h.stop()
}

func TestAuthorizationThatCannotBeServed(t *testing.T) {
	t.Parallel()
	token := filepath.Join(t.TempDir(), "token")
	write(t, token, "secret")
	for want, authorization := range map[string]serve.Authorization{
		"load token":              {Address: "127.0.0.1:0", Callers: serve.Callers{TokenFile: token + "s"}},
		"open authorization port": {Address: "256.0.0.1:0", Callers: serve.Callers{TokenFile: token}},
	} {
		if _, err := serve.New(t.Context(), serve.Config{Policies: []string{t.TempDir()}, Authorization: &authorization}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error is %v, want %q in it", err, want)
		}
	}
}

package serve_test

import (
	"bufio"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/usher-dev/usher/internal/delegated"
	"github.com/usher-dev/usher/internal/delegated/delegatedtest"
	"github.com/usher-dev/usher/internal/serve"
)

// The server's own API takes nothing from admission: while the API server does not say who
// callers are, and more come than are served, pods are decided.
func TestAPIIsApart(t *testing.T) {
	t.Parallel()
	users := delegatedtest.NewCluster(t)
	f := newFakeCluster()
	f.config.Clients.Reviews = users.Client
	f.apply(t, overrides, label("one"))
	h := f.join(t, serve.Config{API: &serve.API{Address: "127.0.0.1:0", Audiences: []string{delegatedtest.Audience}}})
	review := read(t, reviews+"v1-create-pods.json")
	h.eventually("the policy is in force", func() bool { return strings.Contains(h.patch(review), `"one"`) })
	ask := func(path, token string) (string, *http.Response) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, h.server.APIURL()+path, nil)
		if err != nil {
			t.Error(err)
			return "", nil
		}
		r.Header.Set("Authorization", "Bearer "+token)
		return h.answer(h.client.Do(r))
	}
	users.Grant("alice", "list", delegated.Decisions, "shop")
	alice := users.Token("alice", delegatedtest.Audience)
	if body, _ := ask("namespaces/shop", alice); !strings.Contains(body, `"user": "alice"`) || !strings.Contains(body, `"list"`) {
		t.Errorf("alice may do %s", body)
	}

	release := users.Hold()
	defer release()
	var asking sync.WaitGroup
	for range 200 {
		asking.Go(func() { ask("", users.Token("somebody", delegatedtest.Audience)) })
	}
	h.eventually("questions are held", func() bool { now, _ := users.Held(); return now > 40 })
	if got := h.patch(review); !strings.Contains(got, `"one"`) {
		t.Errorf("a pod gets the patch %q while the API is overloaded", got)
	}
	for path, want := range map[string]int{"/usher/v1/": http.StatusNotFound, "/healthz": http.StatusOK} {
		if got := h.status(path); got != want {
			t.Errorf("%s on the port of the webhooks: status %d, want %d", path, got, want)
		}
	}
	release()
	asking.Wait()
	if _, most := users.Held(); most > 64 {
		t.Errorf("%d questions were under way", most)
	}
	h.eventually("it is answered again", func() bool {
		body, _ := ask("namespaces/shop", alice)
		return strings.Contains(body, `"list"`)
	})
	for _, want := range []string{`usher_api_requests_total{code="200",resource="access",verb="get"}`, `usher_requests_shed_total 0`} {
		if got := h.metrics(); !strings.Contains(got, want) {
			t.Errorf("metrics have no %s", want)
		}
	}
	h.stop()
}

const proposed = `
apiVersion: usher.dev/v1alpha1
kind: ClusterPolicyCandidate
metadata: {name: proposed}
spec:
  policies:
  - apiVersion: usher.dev/v1alpha1
    kind: ClusterObjectPolicy
    metadata: {name: no-config}
    spec:
      matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]}
      validations: [{expression: "false", message: "no"}]
`

// TestServerKeepsDecisions: what the webhooks decide is there for those who may see it.
func TestServerKeepsDecisions(t *testing.T) {
	t.Parallel()
	users := delegatedtest.NewCluster(t)
	f := newFakeCluster()
	f.config.Clients.Reviews = users.Client
	f.apply(t, overrides, label("one"))
	file := filepath.Join(t.TempDir(), "candidate.yaml")
	write(t, file, proposed)
	h := f.join(t, serve.Config{Policies: []string{file}, API: &serve.API{Address: "127.0.0.1:0", Audiences: []string{delegatedtest.Audience}}})
	review := read(t, reviews+"v1-create-pods.json")
	h.eventually("the policy is in force", func() bool { return strings.Contains(h.patch(review), `"one"`) })
	users.Grant("alice", "list", delegated.Decisions, "")
	users.Grant("alice", "watch", delegated.Decisions, "")
	users.Grant("alice", "list", delegated.AuditResults, "")
	users.Grant("alice", "list", delegated.CandidateDecisions, "")
	ask := func(path string) *http.Response {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, h.server.APIURL()+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+users.Token("alice", delegatedtest.Audience))
		response, err := h.client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		return response
	}
	body, _ := h.answer(ask("decisions?outcome=changed&last=1"), nil)
	for _, want := range []string{`"kind":"Pod"`, `"verdict":"allow"`, `"changed":true`, `"policy":{"kind":"ClusterOverridePolicy","name":"label"}`, `"outcome":"changed"`} {
		if !strings.Contains(body, want) {
			t.Errorf("the list has no %s: %s", want, body)
		}
	}
	// None was lost: the replica has all of this namespace, too, since it started.
	if body, _ := h.answer(ask("namespaces/nobody/decisions"), nil); !strings.Contains(body, `"oldest":"20`) {
		t.Errorf("the list of a namespace without decisions says not since when it is complete: %s", body)
	}
	for path, want := range map[string]string{
		"decisions?policy=lable": `299 - "there is no policy lable: did you mean label?"`, "decisions?policy=ClusterOverridePolicy/label": "", "decisions": "",
		// A candidate is about what it embeds.
		"candidatedecisions?policy=proposd": `299 - "there is no candidate about proposd: did you mean proposed?"`, "candidatedecisions?policy=no-config": "",
		"candidatedecisions?policy=proposed": "", "candidatedecisions?policy=ClusterOverridePolicy/label": `299 - "there is no candidate about ClusterOverridePolicy/label"`,
		"auditresults?policy=a%1Bb": `299 - "there is no policy a\\x1bb"`,
	} {
		response := ask(path)
		_ = response.Body.Close()
		if got := response.Header.Get("Warning"); got != want {
			t.Errorf("%s: warning %s, want %s", path, got, want)
		}
	}
	stream := ask("decisions?watch=true&last=1")
	defer func() { _ = stream.Body.Close() }()
	lines := bufio.NewScanner(stream.Body)
	reads := func(event string) bool {
		for lines.Scan() {
			if lines.Text() == "event: "+event {
				return true
			}
		}
		return false
	}
	if !reads("decision") {
		t.Fatalf("the stream ends before a decision: %v", lines.Err())
	}
	if got := h.metrics(); !strings.Contains(got, "usher_decisions_recent_subscribers 1") {
		t.Error("metrics do not count the subscriber")
	}
	h.stop()
	if !reads("end") {
		t.Errorf("the stream ends without a reason: %v", lines.Err())
	}
}

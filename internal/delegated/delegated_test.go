package delegated_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/usher-dev/usher/internal/delegated"
	"github.com/usher-dev/usher/internal/delegated/delegatedtest"
)

// Every resource is guarded alike, whether it is served or not.
func TestResourcesAreGuarded(t *testing.T) {
	t.Parallel()
	for _, resource := range delegated.Resources() {
		t.Run(resource, func(t *testing.T) {
			t.Parallel()
			delegatedtest.Run(t, resource, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				_, _ = io.WriteString(w, "{}")
			}))
		})
	}
}

// get asks an API that serves decisions without a server around it.
func get(t *testing.T, o delegated.Options, path, token string) *httptest.ResponseRecorder {
	t.Helper()
	o.Audiences, o.Log = []string{delegatedtest.Audience}, slog.New(slog.DiscardHandler)
	api, err := delegated.New(o)
	if err != nil {
		t.Fatal(err)
	}
	w, r := httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	api.ServeHTTP(w, r)
	return w
}

func TestAccessTellsTheCallersOwnRights(t *testing.T) {
	t.Parallel()
	cluster := delegatedtest.NewCluster(t)
	cluster.Grant("alice", "list", delegated.Decisions, "shop")
	cluster.Grant("alice", "get", delegated.Decisions, "shop")
	cluster.Grant("alice", "list", delegated.AuditResults, "")
	served := map[string]http.Handler{delegated.Decisions: http.NotFoundHandler()}
	about := func(decisions, audits []string) []delegated.ResourceAccess {
		return []delegated.ResourceAccess{
			{Group: "usher.dev", Name: "decisions", Served: true, Verbs: decisions},
			{Group: "usher.dev", Name: "candidatedecisions", Verbs: []string{}},
			{Group: "usher.dev", Name: "auditresults", Verbs: audits},
			{Group: "usher.dev", Name: "recordings", Verbs: []string{}},
		}
	}
	for _, row := range []struct {
		path, namespace  string
		decisions, audit []string
	}{
		{"/usher/v1", "", []string{}, []string{"list"}},
		{"/usher/v1/", "", []string{}, []string{"list"}},
		{"/usher/v1/namespaces/shop", "shop", []string{"get", "list"}, []string{"list"}},
		{"/usher/v1/namespaces/shop/", "shop", []string{"get", "list"}, []string{"list"}},
		{"/usher/v1/namespaces/bank", "bank", []string{}, []string{"list"}},
	} {
		w := get(t, delegated.Options{Client: cluster.Client, Handlers: served}, row.path, cluster.Token("alice", delegatedtest.Audience))
		var got delegated.Access
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != http.StatusOK {
			t.Errorf("%s: status %d: %v: %s", row.path, w.Code, err, w.Body)
		}
		want := delegated.Access{User: "alice", Namespace: row.namespace, Resources: about(row.decisions, row.audit)}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", row.path, diff)
		}
	}
	for _, token := range []string{"", "forged", cluster.Token("alice", "another")} {
		if w := get(t, delegated.Options{Client: cluster.Client}, "/usher/v1/", token); w.Code != http.StatusUnauthorized {
			t.Errorf("with the token %q the status is %d: %s", token, w.Code, w.Body)
		}
	}
	cluster.Down(true)
	if w := get(t, delegated.Options{Client: cluster.Client}, "/usher/v1/", cluster.Token("alice", delegatedtest.Audience)); w.Code != http.StatusServiceUnavailable {
		t.Errorf("without API server the status is %d: %s", w.Code, w.Body)
	}
}

// What is not served says so, but only to those who might see it.
func TestResourcesThatAreNotServed(t *testing.T) {
	t.Parallel()
	cluster := delegatedtest.NewCluster(t)
	cluster.Grant("alice", "list", delegated.Recordings, "")
	for user, want := range map[string]int{"alice": http.StatusNotFound, "bob": http.StatusForbidden} {
		w := get(t, delegated.Options{Client: cluster.Client}, "/usher/v1/recordings", cluster.Token(user, delegatedtest.Audience))
		if w.Code != want || want == http.StatusNotFound && !strings.Contains(w.Body.String(), "does not serve recordings") {
			t.Errorf("%s gets status %d, want %d: %s", user, w.Code, want, w.Body)
		}
	}
}

// A watch is authorized when it begins, so it ends by itself.
func TestWatchesEnd(t *testing.T) {
	t.Parallel()
	cluster := delegatedtest.NewCluster(t)
	cluster.Grant("alice", "watch", delegated.Decisions, "")
	var ended error
	watch := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
		ended = r.Context().Err()
	})
	get(t, delegated.Options{
		Client: cluster.Client, MaxWatch: time.Millisecond, Handlers: map[string]http.Handler{delegated.Decisions: watch},
	}, "/usher/v1/decisions?watch=true", cluster.Token("alice", delegatedtest.Audience))
	if ended != context.DeadlineExceeded {
		t.Errorf("the watch ended with %v", ended)
	}
}

func TestAnswersAndRefusalsAreCounted(t *testing.T) {
	t.Parallel()
	cluster := delegatedtest.NewCluster(t)
	cluster.Grant("alice", "list", delegated.Decisions, "")
	token := cluster.Token("alice", delegatedtest.Audience)
	type answered struct {
		Resource, Verb string
		Code           int
	}
	var answers []answered
	var reasons []delegated.Reason
	o := delegated.Options{
		Client: cluster.Client, Handlers: map[string]http.Handler{delegated.Decisions: http.NotFoundHandler()},
		Answered: func(resource, verb string, code int) { answers = append(answers, answered{resource, verb, code}) },
		Refused:  func(r delegated.Reason) { reasons = append(reasons, r) },
	}
	for _, request := range []struct{ path, token string }{
		{"/usher/v1/decisions", token}, {"/usher/v1/decisions/x", token}, {"/usher/v1/recordings?watch=1", ""},
		{"/usher/v1", "forged"}, {"/etc/passwd", token},
	} {
		get(t, o, request.path, request.token)
	}
	want := []answered{
		{"decisions", "list", 404}, {"decisions", "get", 403}, {"recordings", "watch", 401}, {"access", "get", 401}, {"", "", 404},
	}
	if diff := cmp.Diff(want, answers); diff != "" {
		t.Errorf("answers (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]delegated.Reason{delegated.NoCredentials, delegated.WrongCredentials}, reasons); diff != "" {
		t.Errorf("refusals (-want +got):\n%s", diff)
	}
}

func TestAudiencesAreNeeded(t *testing.T) {
	t.Parallel()
	if _, err := delegated.New(delegated.Options{Client: delegatedtest.NewCluster(t).Client}); err == nil {
		t.Error("an API accepts tokens for any audience")
	}
}

// Somebody who reads slowly from many connections keeps nobody else from reading.
func TestNoUserTakesAllSlots(t *testing.T) {
	t.Parallel()
	cluster := delegatedtest.NewCluster(t)
	for _, user := range []string{"mallory", "system:serviceaccount:team:a", "system:serviceaccount:team:b", "alice"} {
		cluster.Grant(user, "list", delegated.Decisions, "")
	}
	served, release := make(chan string, 64), make(chan struct{})
	slow := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		request, _ := delegated.RequestOf(r.Context())
		served <- request.User.GetName()
		<-release
	})
	api, err := delegated.New(delegated.Options{
		Client: cluster.Client, Audiences: []string{delegatedtest.Audience}, MaxInFlight: 16,
		Handlers: map[string]http.Handler{delegated.Decisions: slow}, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	var reading sync.WaitGroup
	ask := func(user string) *httptest.ResponseRecorder {
		w, r := httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/usher/v1/decisions", nil)
		r.Header.Set("Authorization", "Bearer "+cluster.Token(user, delegatedtest.Audience))
		api.ServeHTTP(w, r)
		return w
	}
	serve := func(user string) {
		reading.Go(func() {
			if w := ask(user); w.Code != http.StatusOK {
				t.Errorf("%s gets status %d: %s", user, w.Code, w.Body)
			}
		})
		if got := <-served; got != user {
			t.Errorf("%s is served, want %s", got, user)
		}
	}
	for range 4 {
		serve("mallory")
	}
	if w := ask("mallory"); w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") == "" {
		t.Errorf("a fifth request of 16 gets status %d: %s", w.Code, w.Body)
	}
	for _, robot := range []string{"a", "b", "a", "b"} {
		serve("system:serviceaccount:team:" + robot)
	}
	if w := ask("system:serviceaccount:team:a"); w.Code != http.StatusTooManyRequests {
		t.Errorf("ServiceAccounts of a namespace count as several: status %d", w.Code)
	}
	serve("alice")
	close(release)
	reading.Wait()
	serve("mallory")
	reading.Wait()
}

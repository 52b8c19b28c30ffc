package delegatedtest

import (
	"crypto/tls"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/usher-dev/usher/internal/delegated"
)

// timeout is how long tests wait for what has no signal.
const timeout = time.Minute

// Run tests that the handler of a resource receives exactly the requests that the rights of callers
// allow.
func Run(t *testing.T, resource string, handler http.Handler) {
	t.Helper()
	t.Run("rights", func(t *testing.T) { t.Parallel(); testRights(t, resource, handler) })
	t.Run("forms", func(t *testing.T) { t.Parallel(); testForms(t, resource, handler) })
	t.Run("certificates", func(t *testing.T) { t.Parallel(); testCertificates(t, resource, handler) })
	t.Run("outage", func(t *testing.T) { t.Parallel(); testOutage(t, resource, handler) })
	t.Run("revocation", func(t *testing.T) { t.Parallel(); testRevocation(t, resource, handler) })
	t.Run("many callers", func(t *testing.T) { t.Parallel(); testManyCallers(t, resource, handler) })
}

// A server serves a handler behind an API, over HTTPS.
type server struct {
	*Cluster
	url    string
	client *http.Client

	mu sync.Mutex
	// seen are the requests that the handler received.
	seen []delegated.Request
	// leaked are headers with credentials that it got.
	leaked []string
}

// start starts a server that uses the cluster.
func start(t *testing.T, cluster *Cluster, resource string, handler http.Handler, o delegated.Options) *server {
	t.Helper()
	s := &server{Cluster: cluster}
	o.Client, o.Audiences, o.Log = s.Client, []string{Audience}, slog.New(slog.DiscardHandler)
	o.Handlers = map[string]http.Handler{resource: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		request, _ := delegated.RequestOf(r.Context())
		s.mu.Lock()
		s.seen = append(s.seen, request)
		s.leaked = append(s.leaked, r.Header.Values("Authorization")...)
		s.mu.Unlock()
		handler.ServeHTTP(w, r)
	})}
	api, err := delegated.New(o)
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = api.Run(t.Context()) }()
	https := httptest.NewUnstartedServer(api)
	https.EnableHTTP2 = true
	https.TLS = api.ConfigureTLS(&tls.Config{MinVersion: tls.VersionTLS13})
	https.StartTLS()
	t.Cleanup(https.Close)
	s.url, s.client = https.URL, https.Client()
	s.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	t.Cleanup(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(s.leaked) > 0 {
			t.Errorf("the handler got %d credentials of callers", len(s.leaked))
		}
	})
	return s
}

// requests returns the requests that the handler received since the last call.
func (s *server) requests() []delegated.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := s.seen
	s.seen = nil
	return seen
}

// ask sends a request with a token, which may be empty, and returns the status. The response to a
// denied request must be a Status.
func (s *server) ask(t *testing.T, method, path, token string, change ...func(*http.Request)) int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, s.url+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	for _, f := range change {
		f(r)
	}
	response, err := s.client.Do(r)
	if err != nil {
		t.Errorf("%s %s: %v", method, path, err)
		return 0
	}
	defer func() { _ = response.Body.Close() }()
	if refused(response.StatusCode) && method != http.MethodHead {
		checkStatus(t, response, token)
	}
	return response.StatusCode
}

// checkStatus checks that a denial has its reason, and no details.
func checkStatus(t *testing.T, response *http.Response, token string) {
	t.Helper()
	body, err := io.ReadAll(response.Body)
	status := metav1.Status{}
	if err == nil {
		err = json.Unmarshal(body, &status)
	}
	if err != nil || status.Kind != "Status" || int(status.Code) != response.StatusCode || status.Message == "" || status.Reason == "" {
		t.Errorf("%s: answered %d without a Status that says why: %v: %s", response.Request.URL, response.StatusCode, err, body)
	}
	if token != "" && strings.Contains(string(body), token) || strings.Contains(string(body), "etcd") {
		t.Errorf("%s: the answer tells too much: %s", response.Request.URL, body)
	}
	if response.StatusCode == http.StatusUnauthorized && response.Header.Get("WWW-Authenticate") == "" {
		t.Errorf("%s: the answer does not say how to authenticate", response.Request.URL)
	}
	if response.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("%s: proxies may keep the answer", response.Request.URL)
	}
}

// refused are the statuses of requests that do not reach a handler.
func refused(code int) bool {
	switch code {
	case http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusMethodNotAllowed,
		http.StatusTooManyRequests, http.StatusServiceUnavailable, http.StatusInternalServerError:
		return true
	}
	return false
}

func testRights(t *testing.T, resource string, handler http.Handler) {
	s := start(t, NewCluster(t), resource, handler, delegated.Options{})
	for user, right := range map[string]struct{ verb, resource, namespace string }{
		"lister":  {"list", resource, "shop"},
		"getter":  {"get", resource, "shop"},
		"watcher": {"watch", resource, "shop"},
		"all":     {"list", resource, ""},
		"other":   {"list", other(resource), ""},
	} {
		s.Grant(user, right.verb, right.resource, right.namespace)
	}
	const (
		inShop, inBank, everywhere = "/usher/v1/namespaces/shop/", "/usher/v1/namespaces/bank/", "/usher/v1/"
		allowed                    = http.StatusOK
	)
	for _, row := range []struct {
		reason, user, path string
		want               int
	}{
		{"a right in the namespace", "lister", inShop + resource, allowed},
		{"a right to get is another one", "lister", inShop + resource + "/x", http.StatusForbidden},
		{"a right to watch is another one", "lister", inShop + resource + "?watch=true", http.StatusForbidden},
		{"a watch by another spelling", "lister", inShop + resource + "?watch=1", http.StatusForbidden},
		{"a watch without value", "lister", inShop + resource + "?watch", http.StatusForbidden},
		{"no watch", "lister", inShop + resource + "?watch=false", allowed},
		{"one namespace is not another", "lister", inBank + resource, http.StatusForbidden},
		{"one namespace is not all", "lister", everywhere + resource, http.StatusForbidden},
		{"a parameter is no namespace", "lister", everywhere + resource + "?namespace=shop", http.StatusForbidden},
		{"what is in no namespace", "lister", everywhere + resource + "/x", http.StatusForbidden},
		{"a right to get", "getter", inShop + resource + "/x", allowed},
		{"a list is more than one", "getter", inShop + resource, http.StatusForbidden},
		{"a parameter makes no watch of it", "getter", inShop + resource + "/x?watch=true", allowed},
		{"a right to watch", "watcher", inShop + resource + "?watch=true", allowed},
		{"a watch is no list", "watcher", inShop + resource, http.StatusForbidden},
		{"a right everywhere, in a namespace", "all", inBank + resource, allowed},
		{"a right everywhere", "all", everywhere + resource, allowed},
		{"a right on something else", "other", inShop + resource, http.StatusForbidden},
		{"no right", "nobody", inShop + resource, http.StatusForbidden},
	} {
		code := s.ask(t, http.MethodGet, row.path, s.Token(row.user, "api", Audience))
		seen := s.requests()
		if row.want != allowed {
			if code != row.want || len(seen) > 0 {
				t.Errorf("%s: %s gets %s: status %d, want %d; the handler saw %d requests", row.reason, row.user, row.path, code, row.want, len(seen))
			}
			continue
		}
		if refused(code) || len(seen) != 1 || seen[0].User.GetName() != row.user || seen[0].Resource != resource {
			t.Errorf("%s: %s gets %s: status %d, the handler saw %+v", row.reason, row.user, row.path, code, seen)
		}
		if len(seen) == 1 && strings.HasPrefix(row.path, everywhere+"namespaces/") != (seen[0].Namespace != "") {
			t.Errorf("%s: the handler was asked for the namespace %q", row.path, seen[0].Namespace)
		}
	}
}

// other is a resource that is not the given one.
func other(resource string) string {
	for _, r := range delegated.Resources() {
		if r != resource {
			return r
		}
	}
	return ""
}

package delegatedtest

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/usher-dev/usher/internal/delegated"
)

// testForms sends requests in misleading forms.
func testForms(t *testing.T, resource string, handler http.Handler) {
	s := start(t, NewCluster(t), resource, handler, delegated.Options{})
	for _, verb := range delegated.Verbs() {
		s.Grant("admin", verb, resource, "")
		s.Grant("lister", verb, resource, "shop")
	}
	admin, lister := s.Token("admin", Audience), s.Token("lister", Audience)
	path := "/usher/v1/namespaces/shop/" + resource
	header := func(name string, values ...string) func(*http.Request) {
		return func(r *http.Request) { r.Header[name] = values }
	}
	body := func(r *http.Request) {
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader("{}")), 2
	}
	for _, row := range append([]form{
		{"no credentials", http.MethodGet, path, "", nil, http.StatusUnauthorized},
		{"no credentials and no body to read", http.MethodHead, path, "", nil, http.StatusUnauthorized},
		{"a token that nobody knows", http.MethodGet, path, "forged", nil, http.StatusUnauthorized},
		{"a token for the API server", http.MethodGet, path, s.Token("admin", "https://kubernetes.default.svc"), nil, http.StatusUnauthorized},
		{"a token for no audience", http.MethodGet, path, s.Token("admin"), nil, http.StatusUnauthorized},
		{"a token of an API server that knows no audiences", http.MethodGet, path, s.Token("admin", anyAudience), nil, http.StatusUnauthorized},
		{"basic authentication", http.MethodGet, path, "", header("Authorization", "Basic YWRtaW46YWRtaW4="), http.StatusUnauthorized},
		{"an empty token", http.MethodGet, path, "", header("Authorization", "Bearer "), http.StatusUnauthorized},
		{"a token as a parameter", http.MethodGet, path + "?access_token=" + admin, "", nil, http.StatusUnauthorized},
		{"a token as a cookie", http.MethodGet, path, "", header("Cookie", "token="+admin), http.StatusUnauthorized},
		{"a token as WebSockets send it", http.MethodGet, path, "", header("Sec-Websocket-Protocol", "base64url.bearer.authorization.k8s.io."+admin), http.StatusUnauthorized},
		{"two tokens", http.MethodGet, path, "", header("Authorization", "Bearer "+lister, "Bearer "+admin), http.StatusBadRequest},
		{"a front proxy's headers", http.MethodGet, path, "", header("X-Remote-User", "admin"), http.StatusUnauthorized},
		{"headers of a front proxy beside a token", http.MethodGet, "/usher/v1/" + resource, lister, header("X-Remote-User", "admin"), http.StatusForbidden},
		{"groups of a front proxy beside a token", http.MethodGet, "/usher/v1/" + resource, lister, header("X-Remote-Group", "system:masters"), http.StatusForbidden},
		{"impersonation", http.MethodGet, path, admin, header("Impersonate-User", "lister"), http.StatusBadRequest},
		{"impersonation of a group alone", http.MethodGet, path, lister, header("Impersonate-Group", "system:masters"), http.StatusBadRequest},
		{"impersonation, with more data", http.MethodGet, path, lister, header("Impersonate-Extra-Scopes", "all"), http.StatusBadRequest},
		{"another method in a header", http.MethodPost, path, admin, header("X-Http-Method-Override", "GET"), http.StatusMethodNotAllowed},
		{"creation", http.MethodPost, path, admin, nil, http.StatusMethodNotAllowed},
		{"deletion", http.MethodDelete, path, admin, nil, http.StatusMethodNotAllowed},
		{"a patch", http.MethodPatch, path, admin, nil, http.StatusMethodNotAllowed},
		{"what browsers ask first", http.MethodOptions, path, admin, nil, http.StatusMethodNotAllowed},
		{"a body", http.MethodGet, path, admin, body, http.StatusBadRequest},
		{"another path in a header", http.MethodGet, "/usher/v1/" + resource, lister, header("X-Original-Url", path), http.StatusForbidden},
	}, paths(resource, path, admin)...) {
		var changes []func(*http.Request)
		if row.change != nil {
			changes = append(changes, row.change)
		}
		if code := s.ask(t, row.method, row.path, row.token, changes...); code != row.want {
			t.Errorf("%s: %s %s: status %d, want %d", row.reason, row.method, row.path, code, row.want)
		}
		if seen := s.requests(); len(seen) > 0 {
			t.Errorf("%s: the handler saw %+v", row.reason, seen)
		}
	}
	if code := s.ask(t, http.MethodHead, path, lister); refused(code) || len(s.requests()) != 1 {
		t.Errorf("HEAD with the right to list: status %d", code)
	}
}

// A form is a request, and how it is answered.
type form struct {
	reason, method, path, token string
	change                      func(*http.Request)
	want                        int
}

// paths are spellings of paths that there are not.
func paths(resource, path, admin string) []form {
	return []form{
		{"dots", http.MethodGet, "/usher/v1/namespaces/shop/../bank/" + resource, admin, nil, http.StatusNotFound},
		{"dots, escaped", http.MethodGet, "/usher/v1/namespaces/shop/%2e%2e/bank/" + resource, admin, nil, http.StatusNotFound},
		{"a slash, escaped", http.MethodGet, "/usher/v1/namespaces/shop%2f" + resource, admin, nil, http.StatusNotFound},
		{"a letter, escaped", http.MethodGet, "/usher/v1/namespaces/shop/%" + hex(resource[0]) + resource[1:], admin, nil, http.StatusNotFound},
		{"an empty namespace", http.MethodGet, "/usher/v1/namespaces//" + resource, admin, nil, http.StatusNotFound},
		{"two slashes", http.MethodGet, "/usher/v1//" + resource, admin, nil, http.StatusNotFound},
		{"a namespace that there cannot be", http.MethodGet, "/usher/v1/namespaces/SHOP/" + resource, admin, nil, http.StatusNotFound},
		{"a name that there cannot be", http.MethodGet, path + "/..", admin, nil, http.StatusNotFound},
		{"a subresource", http.MethodGet, path + "/x/status", admin, nil, http.StatusNotFound},
		{"another resource", http.MethodGet, "/usher/v1/namespaces/shop/secrets", admin, nil, http.StatusNotFound},
		{"another version", http.MethodGet, "/usher/v2/" + resource, admin, nil, http.StatusNotFound},
		{"a longer prefix", http.MethodGet, "/usher/v1x/" + resource, admin, nil, http.StatusNotFound},
	}
}

func hex(b byte) string { return string("0123456789abcdef"[b>>4]) + string("0123456789abcdef"[b&15]) }

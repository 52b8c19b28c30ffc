package console_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/usher-dev/usher/internal/console"
)

type text struct {
	Text string `json:"text"`
}

// server returns a server with two routes: echo, and slow, which lasts until its request ends and says so.
func server(t *testing.T) (s *console.Server, begun chan struct{}) {
	t.Helper()
	begun = make(chan struct{}, 100)
	s, err := console.New(console.Options{Port: 8585, Version: "1", Routes: []console.Route{
		console.Post("echo", console.Light, "Echo", func(_ context.Context, in *text) (*text, error) { return in, nil }),
		console.Get("named/{name}", "name", "Name", func(_ context.Context, name string) (*text, error) { return &text{name}, nil }),
		console.Post("panics", console.Light, "Panic", func(context.Context, *text) (*text, error) { panic("x") }),
		console.Post("slow", console.Heavy, "Wait", func(ctx context.Context, _ *text) (*text, error) {
			begun <- struct{}{}
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}),
	}})
	if err != nil {
		t.Fatal(err)
	}
	return s, begun
}

// cookie takes the cookie that the address of a server gives.
func cookie(t *testing.T, s *console.Server) *http.Cookie {
	t.Helper()
	w := httptest.NewRecorder()
	s.ServeHTTP(w, request(http.MethodGet, s.URL(), "", nil))
	if cookies := w.Result().Cookies(); w.Code == http.StatusSeeOther && len(cookies) == 1 {
		return cookies[0]
	}
	t.Fatalf("no cookie: %d", w.Code)
	return nil
}

func request(method, path, body string, c *http.Cookie) *http.Request {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Host = "127.0.0.1:8585"
	r.Header.Set("Content-Type", "application/json")
	if c != nil {
		r.AddCookie(c)
	}
	return r
}

// TestAttackersAreRefused: who is not the page of this run gets nothing.
func TestAttackersAreRefused(t *testing.T) {
	t.Parallel()
	const echo = "/api/v1/echo"
	s, _ := server(t)
	own := cookie(t, s)
	other, _ := server(t)
	for _, row := range []struct {
		reason string
		change func(*http.Request)
		status int
	}{
		{"the page itself", func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-origin") }, http.StatusOK},
		{"its other names", func(r *http.Request) { r.Host = "localhost:8585" }, http.StatusOK},
		{"by IPv6", func(r *http.Request) { r.Host = "[::1]:8585" }, http.StatusOK},
		{"a name that was made to lead here", func(r *http.Request) { r.Host = "attacker.example:8585" }, http.StatusMisdirectedRequest},
		{"a name that looks like one of ours", func(r *http.Request) { r.Host = "localhost.attacker.example:8585" }, http.StatusMisdirectedRequest},
		{"another port", func(r *http.Request) { r.Host = "127.0.0.1:80" }, http.StatusMisdirectedRequest},
		{"no name", func(r *http.Request) { r.Host = "" }, http.StatusMisdirectedRequest},
		{"a page of another site", func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }, http.StatusForbidden},
		{"a page of another port", func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-site") }, http.StatusForbidden},
		{"a page of a browser that says only its origin", func(r *http.Request) { r.Header.Set("Origin", "http://attacker.example") }, http.StatusForbidden},
		{"a page without an origin", func(r *http.Request) { r.Header.Set("Origin", "null") }, http.StatusForbidden},
		{"a form", func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") }, http.StatusUnsupportedMediaType},
		{"no cookie", func(r *http.Request) { r.Header.Del("Cookie") }, http.StatusUnauthorized},
		{"the cookie of another run", func(r *http.Request) {
			r.Header.Del("Cookie")
			r.AddCookie(cookie(t, other))
		}, http.StatusUnauthorized},
		{"an empty cookie", func(r *http.Request) {
			r.Header.Del("Cookie")
			r.AddCookie(&http.Cookie{Name: own.Name})
		}, http.StatusUnauthorized},
	} {
		r := request(http.MethodPost, echo, `{"text":"a"}`, own)
		row.change(r)
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if w.Code != row.status {
			t.Errorf("%s: status %d, want %d: %s", row.reason, w.Code, row.status, w.Body)
		}
	}
}

// TestSaysWhichCookie: no cookie has another reason than that of another run.
func TestSaysWhichCookie(t *testing.T) {
	t.Parallel()
	s, _ := server(t)
	other, _ := server(t)
	for want, c := range map[string]*http.Cookie{"no cookie": nil, "another run": cookie(t, other)} {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, request(http.MethodGet, "/api/v1/ping", "", c))
		if w.Code != http.StatusUnauthorized || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: %d %s", want, w.Code, w.Body)
		}
	}
}

// TestTokenIsTakenOnce: the address gives the cookie once, and the cookie is for the page alone.
func TestTokenIsTakenOnce(t *testing.T) {
	t.Parallel()
	s, _ := server(t)
	address := s.URL()
	w := httptest.NewRecorder()
	s.ServeHTTP(w, request(http.MethodGet, "/?token=wrong", "", nil))
	if w.Code != http.StatusUnauthorized {
		t.Errorf("a wrong token: %d", w.Code)
	}
	c := cookie(t, s)
	if !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "/" || len(c.Value) < 26 {
		t.Errorf("cookie %+v", c)
	}
	for reason, row := range map[string]struct {
		c      *http.Cookie
		status int
	}{"replayed": {nil, http.StatusUnauthorized}, "reloaded by the same browser": {c, http.StatusSeeOther}} {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, request(http.MethodGet, address, "", row.c))
		if w.Code != row.status {
			t.Errorf("%s: status %d, want %d", reason, w.Code, row.status)
		}
	}
}

// TestPageIsConfined: what the page may do is said in each response.
func TestPageIsConfined(t *testing.T) {
	t.Parallel()
	s, _ := server(t)
	c := cookie(t, s)
	nonces := map[string]bool{}
	for range 2 {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, request(http.MethodGet, "/", "", c))
		policy := w.Header().Get("Content-Security-Policy")
		before, nonce, _ := strings.Cut(policy, "style-src 'self' 'nonce-")
		nonce, after, _ := strings.Cut(nonce, "'")
		if before != "default-src 'none'; script-src 'self'; " || nonces[nonce] || len(nonce) < 26 ||
			after != "; img-src 'self' data:; connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'" {
			t.Errorf("policy %s", policy)
		}
		nonces[nonce] = true
		if w.Header().Get("X-Content-Type-Options") != "nosniff" || w.Header().Get("Referrer-Policy") != "no-referrer" || strings.Contains(w.Body.String(), "{{nonce}}") {
			t.Errorf("headers %v of %s", w.Header(), w.Body)
		}
	}
}

// TestMistakesAreErrors: a field that there is not and a method that a path does not have are said with those meant.
func TestMistakesAreErrors(t *testing.T) {
	t.Parallel()
	s, _ := server(t)
	c := cookie(t, s)
	for _, row := range []struct {
		reason, method, path, body string
		status                     int
		allow, says                string
	}{
		{"a misspelled field", http.MethodPost, "/api/v1/echo", `{"txt":"a"}`, http.StatusBadRequest, "", `unknown field "txt": did you mean text?`},
		{"a field twice", http.MethodPost, "/api/v1/echo", `{"text":"a","text":"b"}`, http.StatusBadRequest, "", `duplicate field "text"`},
		{"more than one object", http.MethodPost, "/api/v1/echo", `{"text":"a"}{"text":"b"}`, http.StatusBadRequest, "", "decode request"},
		{"a route that takes a body", http.MethodGet, "/api/v1/echo", "", http.StatusMethodNotAllowed, "POST", "expected the method POST, not GET"},
		{"a route that takes none", http.MethodPost, "/api/v1/named/a", "{}", http.StatusMethodNotAllowed, "GET", "expected the method GET, not POST"},
		{"the description", http.MethodDelete, "/api/v1/openapi.json", "", http.StatusMethodNotAllowed, "GET", "expected the method GET"},
		{"the page", http.MethodPost, "/", "", http.StatusMethodNotAllowed, "GET", "expected the method GET"},
	} {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, request(row.method, row.path, row.body, c))
		var answer map[string]string
		if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || w.Code != row.status || w.Header().Get("Allow") != row.allow || !strings.Contains(answer["error"], row.says) {
			t.Errorf("%s: status %d, Allow %q, %s", row.reason, w.Code, w.Header().Get("Allow"), w.Body)
		}
	}
}

// TestRequestsAreBounded: large, deep and broken bodies are errors, defects as well.
func TestRequestsAreBounded(t *testing.T) {
	t.Parallel()
	s, _ := server(t)
	c := cookie(t, s)
	for reason, row := range map[string]struct {
		path, body string
		status     int
	}{
		"large":       {"echo", `{"text":"` + strings.Repeat("a", 1<<20) + `"}`, http.StatusRequestEntityTooLarge},
		"deep":        {"echo", strings.Repeat(`{"text":`, 20_000), http.StatusBadRequest},
		"broken":      {"echo", `{"text":`, http.StatusBadRequest},
		"a defect":    {"panics", `{}`, http.StatusInternalServerError},
		"no such one": {"nothing", `{}`, http.StatusNotFound},
	} {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, request(http.MethodPost, "/api/v1/"+row.path, row.body, c))
		var answer map[string]string
		if err := json.Unmarshal(w.Body.Bytes(), &answer); w.Code != row.status || err != nil || answer["error"] == "" {
			t.Errorf("%s: status %d, want %d: %.200s", reason, w.Code, row.status, w.Body)
		}
	}
}

// TestNewerRequestsReplaceOlder: a request of a page ends its older one for the same path, and no others.
func TestNewerRequestsReplaceOlder(t *testing.T) {
	t.Parallel()
	s, begun := server(t)
	c := cookie(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	ask := func(page string) chan int {
		r := request(http.MethodPost, "/api/v1/slow", `{}`, c).WithContext(ctx)
		r.Header.Set("Usher-Page", page)
		done := make(chan int, 1)
		go func() {
			w := httptest.NewRecorder()
			s.ServeHTTP(w, r)
			done <- w.Code
		}()
		return done
	}
	first := ask("a")
	<-begun
	other := ask("b")
	<-begun
	second := ask("a")
	if status := <-first; status != http.StatusConflict {
		t.Errorf("the older one: status %d", status)
	}
	<-begun
	select {
	case status := <-other:
		t.Errorf("the other page: status %d", status)
	case status := <-second:
		t.Errorf("the newer one: status %d", status)
	default:
	}
	cancel()
	<-other
	<-second
}

// TestAPIIsDescribed: the description has every route, and every type that it mentions.
func TestAPIIsDescribed(t *testing.T) {
	t.Parallel()
	s, _ := server(t)
	w := httptest.NewRecorder()
	s.ServeHTTP(w, request(http.MethodGet, "/api/v1/openapi.json", "", cookie(t, s)))
	var described struct {
		Paths      map[string]map[string]any `json:"paths"`
		Components struct {
			Schemas map[string]any `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(w.Body.Bytes(), &described); err != nil {
		t.Fatal(err)
	}
	for path, method := range map[string]string{"/api/v1/echo": "post", "/api/v1/named/{name}": "get"} {
		if described.Paths[path][method] == nil {
			t.Errorf("%s %s is not described", method, path)
		}
	}
	for _, after := range bytes.Split(w.Body.Bytes(), []byte(`"#/components/schemas/`))[1:] {
		if name, _, _ := bytes.Cut(after, []byte(`"`)); described.Components.Schemas[string(name)] == nil {
			t.Errorf("there is no schema %s", name)
		}
	}
}

// TestFolderIsNotLeft: no name and no link leads out of the folder.
func TestFolderIsNotLeft(t *testing.T) {
	t.Parallel()
	outside, dir := t.TempDir(), t.TempDir()
	secret := filepath.Join(outside, "secret.yaml")
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	for link, to := range map[string]string{"link.yaml": secret, "folder": outside, "fifo.yaml": os.DevNull} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	f, err := console.OpenFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, name := range []string{
		"", ".", "..", "../secret.yaml", secret, "a/../../secret.yaml", "./a.yaml", "a//b.yaml", "a\\b.yaml", "a\x00.yaml", ".hidden.yaml", ".git/config.yaml", "a.sh", "a",
		"link.yaml", "folder/secret.yaml", "folder/new.yaml", "fifo.yaml", strings.Repeat("a", 300) + ".yaml",
	} {
		if text, err := f.Read(name); err == nil {
			t.Errorf("read %q: %q", name, text)
		}
		if _, err := f.Write(name, "changed", true, ""); err == nil {
			t.Errorf("wrote %q", name)
		} else if strings.Contains(name, "link") && strings.Contains(err.Error(), outside) {
			t.Errorf("%v tells where the link leads", err)
		}
	}
	if entries, err := os.ReadDir(outside); err != nil || len(entries) != 1 {
		t.Errorf("outside are %v: %v", entries, err)
	}
	if text, err := os.ReadFile(secret); err != nil || string(text) != "secret" {
		t.Errorf("the file outside is %q: %v", text, err)
	}
	if _, err := f.Write("a/b.yaml", "x", false, ""); err != nil {
		t.Error(err)
	}
}

// TestFilesAreReplacedWhole: a file keeps its mode and is replaced as a whole, while it is the one that was read.
func TestFilesAreReplacedWhole(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	name := filepath.Join(dir, "a.yaml")
	put := func(text string, mode os.FileMode) {
		t.Helper()
		if err := errors.Join(os.WriteFile(name, []byte(text), 0o600), os.Chmod(name, mode)); err != nil {
			t.Fatal(err)
		}
	}
	put("first", 0o640)
	if _, err := console.OpenFolder(name); err == nil || !strings.HasSuffix(err.Error(), "a.yaml is a file: name the folder that it is in") {
		t.Errorf("a file as folder: %v", err)
	}
	f, err := console.OpenFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	before, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer before.Close()
	version, err := f.Write("a.yaml", "second", true, console.Version("first"))
	info, statErr := os.Stat(name)
	if err != nil || statErr != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("wrote a file of mode %v: %v, %v", info.Mode(), err, statErr)
	}
	if text, err := io.ReadAll(before); string(text) != "first" || err != nil {
		t.Errorf("who has opened the file before reads %q: %v", text, err)
	}
	put("of another program", 0o640)
	refused := func(reason, name, version string, overwrite bool, says string) {
		t.Helper()
		if _, err := f.Write(name, "lost", overwrite, version); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want an error that says %s", reason, err, says)
		}
	}
	refused("changed", "a.yaml", version, true, "open the file again")
	refused("gone", "b.yaml", version, true, "as a new file")
	refused("exists", "a.yaml", "", false, "overwrite it")
	put("kept", 0o440)
	refused("read-only", "a.yaml", "", true, "chmod u+w")
	if text, err := os.ReadFile(name); string(text) != "kept" || err != nil {
		t.Errorf("the file is %q: %v", text, err)
	}
	if entries, err := os.ReadDir(dir); len(entries) != 1 || err != nil {
		t.Errorf("files are left: %v, %v", entries, err)
	}
}

// TestStatesAreShared: a state is read again as it was, also from a mail; what is no state is an error.
func TestStatesAreShared(t *testing.T) {
	t.Parallel()
	want := &console.State{Policies: "a: b\n", Object: "ü: 😀", User: console.User{Name: "jane", Groups: []string{"a"}}, DryRun: true}
	shared, err := console.Share(want)
	if err != nil {
		t.Fatal(err)
	}
	broken := " " + shared[:20] + "\r\n" + shared[20:] + "\n"
	if got, err := console.Parse(broken); err != nil || cmp.Diff(want, got) != "" {
		t.Errorf("read again: %v: %s", err, cmp.Diff(want, got))
	}
	bomb, err := console.Share(&console.State{Policies: strings.Repeat("a", 64<<20)})
	if err != nil {
		t.Fatal(err)
	}
	for reason, text := range map[string]string{"nothing": "", "another text": "kind: Pod", "cut": shared[:len(shared)-8], "not base64": shared + "*", "another version": "usher2:" + shared[7:], "a bomb": bomb} {
		if got, err := console.Parse(text); err == nil {
			t.Errorf("%s: %s", reason, fmt.Sprint(got)[:20])
		}
	}
}

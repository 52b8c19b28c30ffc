package serve_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"github.com/usher-dev/usher/internal/observe/trace"
	"github.com/usher-dev/usher/internal/paths"
	"github.com/usher-dev/usher/internal/serve"
)

// register registers a path of the mutating webhook.
func (f *fakeCluster) register(t *testing.T, path string, resources ...string) {
	t.Helper()
	client := f.kube.AdmissionregistrationV1().MutatingWebhookConfigurations()
	c, err := client.Get(t.Context(), "usher", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c.Webhooks[0].ClientConfig.Service.Path = &path
	if len(resources) > 0 {
		c.Webhooks[0].Rules = []admissionv1.RuleWithOperations{{
			Operations: []admissionv1.OperationType{admissionv1.OperationAll},
			Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"*"}, Resources: resources},
		}}
	}
	if _, err := client.Update(t.Context(), c, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func TestOnlyRegisteredPathsAreAnswered(t *testing.T) {
	t.Parallel()
	f := newFakeCluster()
	f.apply(t, overrides, label("one"))
	h := f.join(t, serve.Config{})
	pod, secret := read(t, reviews+"v1-create-pods.json"), bytes.ReplaceAll(read(t, reviews+"v1-create-pods.json"), []byte(`"pods"`), []byte(`"secrets"`))
	expect := func(reason, path string, review []byte, want int) {
		t.Helper()
		body, response := h.post(path, review)
		if response == nil || response.StatusCode != want {
			t.Errorf("%s: answered %v: %s, want %d", reason, response, body, want)
			return
		}
		if want >= 400 && (strings.Contains(body, "allowed") || strings.Contains(body, "one")) {
			t.Errorf("%s: told %s", reason, body)
		}
	}
	expect("what API servers call", h.mutate, pod, http.StatusOK)
	expect("a query", h.mutate+"?timeout=5s", pod, http.StatusOK)
	expect("what everybody knows", "/mutate", pod, http.StatusNotFound)
	expect("a guess", "/mutate/"+strings.Repeat("a", 64), pod, http.StatusNotFound)
	expect("another phase", strings.Replace(h.mutate, "mutate", "validate", 1), pod, http.StatusNotFound)
	expect("another page", "/debug/pprof/", pod, http.StatusNotFound)
	expect("a resource that API servers do not send", h.mutate, secret, http.StatusForbidden)
	// Nothing below waits for the next time that the registration is read anyhow.
	f.register(t, h.mutate, "secrets")
	expect("a resource that API servers were just told to send", h.mutate, secret, http.StatusOK)
	expect("what they may still send", h.mutate, pod, http.StatusOK)
	f.register(t, "/mutate")
	expect("a replica of an older version has registered", "/mutate", pod, http.StatusOK)
	expect("API servers that have not heard of it", h.mutate, pod, http.StatusOK)
	var away atomic.Bool
	away.Store(true)
	f.kube.PrependReactor("get", "mutatingwebhookconfigurations", func(clienttesting.Action) (bool, runtime.Object, error) {
		return away.Load(), nil, errors.New("connection refused")
	})
	expect("what API servers were told cannot be read", "/mutate/"+strings.Repeat("b", 64), pod, http.StatusServiceUnavailable)
	expect("rather a decision than none", h.mutate, bytes.ReplaceAll(secret, []byte(`"secrets"`), []byte(`"nodes"`)), http.StatusOK)
	metrics := h.metrics()
	for _, want := range []string{
		`usher_refused_callers_total{door="admission",reason="path"} 5`, `usher_refused_callers_total{door="admission",reason="resource"} 1`,
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("metrics have no %s", want)
		}
	}
	h.stop()
}

// Who proves who they are may use the paths that everybody knows.
func TestCallersThatProveWhoTheyAreNeedNoSecretPath(t *testing.T) {
	t.Parallel()
	f := newFakeCluster()
	f.apply(t, overrides, label("one"))
	token := filepath.Join(t.TempDir(), "token")
	write(t, token, "secret-token\n")
	h := f.join(t, serve.Config{Callers: serve.Callers{TokenFile: token}})
	for _, row := range []struct {
		reason, path, token string
		want                int
	}{
		{"the path that everybody knows", "/mutate", "secret-token", http.StatusOK},
		{"the registered path", h.mutate, "secret-token", http.StatusOK},
		{"the path does not do", h.mutate, "", http.StatusUnauthorized},
		{"neither", "/mutate", "wrong", http.StatusUnauthorized},
		{"a path that nobody knows", "/mutate/" + strings.Repeat("a", 64), "secret-token", http.StatusNotFound},
	} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, h.server.URL()+row.path, bytes.NewReader(read(t, reviews+"v1-create-pods.json")))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("Authorization", "Bearer "+row.token)
		if body, response := h.answer(h.client.Do(request)); response == nil || response.StatusCode != row.want {
			t.Errorf("%s: answered %v: %s, want %d", row.reason, response, body, row.want)
		}
	}
	h.stop()
}

// A caller that is refused because of the path is not read.
func TestRefusedCallersAreNotRead(t *testing.T) {
	t.Parallel()
	f := newFakeCluster()
	f.apply(t, overrides, label("one"))
	h := f.join(t, serve.Config{})
	body := &endless{}
	response, err := h.client.Post(h.server.URL()+"/mutate", "application/json", body)
	if err == nil {
		_ = response.Body.Close()
		if response.StatusCode != http.StatusNotFound {
			t.Errorf("status %d", response.StatusCode)
		}
	}
	if n := body.read.Load(); n > 16<<20 {
		t.Errorf("%d bytes were sent", n)
	}
	h.stop()
}

// An endless body ends when nobody takes more of it.
type endless struct{ read atomic.Int64 }

func (e *endless) Read(p []byte) (int, error) {
	if e.read.Add(int64(len(p))) > 1<<30 {
		return 0, io.EOF
	}
	return len(p), nil
}

// TestPathsAreNeverTold makes a server say all that it can, and looks for the secret part of
// its paths.
func TestPathsAreNeverTold(t *testing.T) {
	t.Parallel()
	f := newFakeCluster()
	f.apply(t, overrides, label("one"))
	f.config.WebhookConfig.Service, f.config.WebhookConfig.URL = "", "https://usher.example:8443"
	var said lockedBuffer
	h := f.join(t, serve.Config{Requests: serve.Requests{MaxBody: 20_000}, Listen: serve.Listening{Profile: true}, Out: &said, Trace: trace.Options{Sample: 1}})
	pod := read(t, reviews+"v1-create-pods.json")
	tell := func(body string, response *http.Response) {
		// Without a response the body is what the client says, which knows where it went.
		if response != nil {
			_, _ = fmt.Fprintln(&said, response.Status, response.Header, body)
		}
	}
	first, validate := h.mutate, f.path(t, "validate")
	for _, path := range []string{first, validate} {
		tell(h.post(path, pod))
		tell(h.post(path+"?timeout=1ms", pod))
		tell(h.post(path, []byte("{")))
		tell(h.post(path, nil))
		tell(h.post(path, bytes.Repeat(pod, 10)))
		tell(h.post(path, bytes.ReplaceAll(pod, []byte(`"pods"`), []byte(`"secrets"`))))
		tell(h.post(path+"/", pod))
		tell(h.post(path[:len(path)-1], pod))
		tell(h.post(strings.Replace(path, "/", "//", 1), pod))
		tell(h.answer(h.client.Get(h.server.URL() + path)))
		tell(h.answer(h.client.Post(h.server.URL()+path, "text/plain", bytes.NewReader(pod))))
		tell(h.answer((&http.Client{}).Get(strings.Replace(h.server.URL(), "https:", "http:", 1) + path)))
		// It does not trust the server.
		if _, response := h.answer((&http.Client{}).Get(h.server.URL() + path)); response != nil {
			t.Errorf("answered %v", response)
		}
	}
	// One breaks off.
	reader, writer := io.Pipe()
	held := make(chan struct{})
	go func() {
		defer close(held)
		tell(h.answer(h.client.Post(h.server.URL()+first, "application/json", reader)))
	}()
	if _, err := writer.Write(pod[:100]); err != nil {
		t.Fatal(err)
	}
	_ = writer.CloseWithError(io.ErrUnexpectedEOF)
	receive(t, held)
	// API servers name the URL of a webhook that they do not like.
	f.kube.PrependReactor("patch", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		patch := action.(clienttesting.PatchAction).GetPatch()
		return true, nil, apierrors.NewBadRequest(`webhooks[0].clientConfig.url: Invalid value: ` + string(patch))
	})
	f.apply(t, overrides, strings.Replace(label("two"), "kind: Pod", "kind: ConfigMap", 1))
	h.eventually("the error is shown, and first what fails", func() bool {
		page := h.get("/readyz?verbose")
		return strings.Contains(page, "Invalid value") && strings.HasPrefix(page, "failing: registration")
	})
	for _, page := range []string{"/readyz?verbose", "/healthz"} {
		_, _ = io.WriteString(&said, h.get(page))
	}
	for _, page := range []string{"/metrics", "/debug/pprof/", "/debug/pprof/cmdline", "/debug/pprof/goroutine?debug=2", "/debug/pprof/heap?debug=1"} {
		tell(h.answer(h.client.Get(strings.Replace(h.server.MetricsURL(), "/metrics", page, 1))))
	}
	h.stop()
	status, err := f.objects.Resource(overrides).List(context.Background(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	leases, err := f.kube.CoordinationV1().Leases("").List(context.Background(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, _ = fmt.Fprintln(&said, status.Items, leases.Items)
	text := said.String() + h.log.String()
	for _, want := range []string{
		"not an admission review", "is larger than", "reviews of secrets are not answered here", "decision", "explanation=", "TLS handshake error",
		"clientConfig.url: Invalid value", "/mutate/…", "webhook paths chosen",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the test does not make the server say %q", want)
		}
	}
	for _, path := range []string{first, validate} {
		digits := path[strings.LastIndex(path, "/")+1:]
		if at := strings.Index(text, digits[:16]); at >= 0 {
			t.Errorf("a path is told: …%s", paths.Redact(text[max(0, at-200):min(len(text), at+100)]))
		}
	}
}

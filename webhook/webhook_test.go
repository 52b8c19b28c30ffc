package webhook_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/usher-dev/usher/internal/cert"
	"github.com/usher-dev/usher/webhook"
)

// timeout is how long something may take that takes no time.
const timeout = 20 * time.Second

// A running is a server that runs until the test ends.
type running struct {
	*webhook.Server
	client *http.Client
	cancel context.CancelFunc
	ended  chan error
}

func start(t *testing.T, handler http.Handler, o webhook.Options) *running {
	t.Helper()
	o.Address = "127.0.0.1:0"
	o.Log = slog.New(slog.DiscardHandler)
	server, err := webhook.New(handler, o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{Server: server, cancel: cancel, ended: make(chan error, 1), client: trusting(server.CA())}
	go func() { r.ended <- server.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		r.client.CloseIdleConnections()
	})
	return r
}

func trusting(ca []byte) *http.Client {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	return &http.Client{Timeout: timeout, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}
}

// get returns the status and the body; the status is 0 if there is no answer.
func (r *running) get(path string) (int, string) {
	response, err := r.client.Get(r.URL() + path)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = response.Body.Close() }()
	body, _ := io.ReadAll(response.Body)
	return response.StatusCode, string(body)
}

func (r *running) end(t *testing.T) error {
	t.Helper()
	select {
	case err := <-r.ended:
		return err
	case <-time.After(timeout):
		t.Fatal("the server does not end")
		return nil
	}
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline := time.After(timeout)
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for !holds() {
		select {
		case <-deadline:
			t.Fatalf("timed out waiting until %s", what)
		case <-ticker.C:
		}
	}
}

func says(words string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/hook", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, words) })
	return mux
}

func TestServer(t *testing.T) {
	t.Parallel()
	r := start(t, says("hello"), webhook.Options{})
	for path, want := range map[string]string{"/hook": "hello", "/readyz": "ok", "/healthz": "ok"} {
		if code, got := r.get(path); code != http.StatusOK || got != want {
			t.Errorf("%s: %d %q", path, code, got)
		}
	}
	if code, _ := r.get("/nothing"); code != http.StatusNotFound {
		t.Errorf("what the handler does not know is answered with %d", code)
	}
	r.cancel()
	if err := r.end(t); err != nil {
		t.Error(err)
	}
	if code, body := r.get("/hook"); code != 0 {
		t.Errorf("it answers after its end: %d %s", code, body)
	}
}

func TestServerFinishesRequests(t *testing.T) {
	t.Parallel()
	arrived, release := make(chan struct{}), make(chan struct{})
	r := start(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(arrived)
		<-release
		_, _ = io.WriteString(w, "done")
	}), webhook.Options{})
	answers := make(chan string, 1)
	go func() {
		_, body := r.get("/")
		answers <- body
	}()
	<-arrived
	r.cancel()
	eventually(t, "it is not ready any more", func() bool {
		code, body := r.get("/readyz")
		return code == http.StatusServiceUnavailable && body == "not ready: shutting down"
	})
	if code, _ := r.get("/healthz"); code != http.StatusOK {
		t.Errorf("it is not healthy while it finishes: %d", code)
	}
	close(release)
	if got := <-answers; got != "done" {
		t.Errorf("the request in flight got %q", got)
	}
	if err := r.end(t); err != nil {
		t.Error(err)
	}
}

// A request that does not finish does not keep the server forever.
func TestServerGivesUp(t *testing.T) {
	t.Parallel()
	arrived, gone := make(chan struct{}), make(chan struct{})
	r := start(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-r.Context().Done()
		close(gone)
	}), webhook.Options{Grace: 50 * time.Millisecond})
	go r.get("/")
	<-arrived
	r.cancel()
	if err := r.end(t); err == nil || !strings.Contains(err.Error(), "requests in flight did not finish within 50ms") {
		t.Errorf("got %v", err)
	}
	select {
	case <-gone:
	case <-time.After(timeout):
		t.Error("the request goes on")
	}
}

func TestReady(t *testing.T) {
	t.Parallel()
	var warm atomic.Bool
	r := start(t, says(""), webhook.Options{Ready: func() error {
		if !warm.Load() {
			return errors.New("the oven is cold")
		}
		return nil
	}})
	if code, body := r.get("/readyz"); code != http.StatusServiceUnavailable || body != "not ready: the oven is cold" {
		t.Errorf("cold: %d %s", code, body)
	}
	warm.Store(true)
	if code, body := r.get("/readyz"); code != http.StatusOK || body != "ok" {
		t.Errorf("warm: %d %s", code, body)
	}
}

// What is said about TLS is heeded: here that callers need a certificate, and which one
// the server has.
func TestTLS(t *testing.T) {
	t.Parallel()
	other := start(t, says(""), webhook.Options{})
	certificate := certificateOf(t, other)
	r := start(t, says("hello"), webhook.Options{TLS: &tls.Config{
		MinVersion: tls.VersionTLS13, ClientAuth: tls.RequireAnyClientCert,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return certificate, nil },
	}})
	if r.CA() != nil {
		t.Error("it has made a certificate that nobody asked for")
	}
	r.client = trusting(other.CA())
	if code, body := r.get("/hook"); code != 0 || !strings.Contains(body, "certificate required") {
		t.Errorf("without a certificate: %d %s", code, body)
	}
	r.client = trusting(other.CA())
	r.client.Transport.(*http.Transport).TLSClientConfig.Certificates = []tls.Certificate{*certificate}
	if code, body := r.get("/hook"); code != http.StatusOK || body != "hello" {
		t.Errorf("with a certificate: %d %s", code, body)
	}
}

// TestCallers: the handler answers only callers, and probes need nothing.
func TestCallers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	token := filepath.Join(dir, "token")
	if err := os.WriteFile(token, []byte("old\nnew\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	// The certificate of another server is as good as any.
	other := start(t, says(""), webhook.Options{})
	ca := filepath.Join(dir, "ca.crt")
	if err := os.WriteFile(ca, other.CA(), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		reason        string
		options       webhook.Options
		authorization string
		want          int
	}{
		{"no token", webhook.Options{TokenFile: token}, "", http.StatusUnauthorized},
		{"a wrong token", webhook.Options{TokenFile: token}, "Bearer other", http.StatusUnauthorized},
		{"the first token", webhook.Options{TokenFile: token}, "Bearer old", http.StatusOK},
		{"the second token", webhook.Options{TokenFile: token}, "Bearer new", http.StatusOK},
		{"no certificate", webhook.Options{ClientCAFile: ca}, "", http.StatusUnauthorized},
		{"no certificate, with TLS of its own", webhook.Options{ClientCAFile: ca, TLS: &tls.Config{MinVersion: tls.VersionTLS12}}, "", http.StatusUnauthorized},
	}
	for _, test := range tests {
		r := start(t, says("hello"), test.options)
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.URL()+"/hook", nil)
		if err != nil {
			t.Fatal(err)
		}
		if test.authorization != "" {
			request.Header.Set("Authorization", test.authorization)
		}
		response, err := r.client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if response.StatusCode != test.want {
			t.Errorf("%s: got %d, want %d", test.reason, response.StatusCode, test.want)
		}
		if code, _ := r.get("/readyz"); code != http.StatusOK {
			t.Errorf("%s: a probe gets %d", test.reason, code)
		}
	}
}

func certificateOf(t *testing.T, r *running) *tls.Certificate {
	t.Helper()
	certificate, err := webhook.CertificateOf(r.Server)
	if err != nil {
		t.Fatal(err)
	}
	return certificate
}

func TestURL(t *testing.T) {
	t.Parallel()
	r := start(t, says("hello"), webhook.Options{})
	if !strings.HasPrefix(r.URL(), "https://127.0.0.1:") {
		t.Errorf("the URL is %s", r.URL())
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	tests := []struct {
		reason  string
		options webhook.Options
		want    string
	}{
		{"a key without a certificate", webhook.Options{KeyFile: "tls.key"}, `load certificate: CertFile and KeyFile come together, "" and "tls.key" do not`},
		{"files that are not there", webhook.Options{CertFile: "nowhere.crt", KeyFile: "nowhere.key"}, "load certificate: open nowhere.crt: "},
		{"names without a CA", webhook.Options{ClientNames: []string{"kube-apiserver"}}, "load client CA: ClientNames need ClientCAFile"},
		{"a CA beside connections that know their callers", webhook.Options{ClientCAFile: "ca.crt", TLS: &tls.Config{
			MinVersion: tls.VersionTLS13, GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return nil, nil },
		}}, "load client CA: ClientCAFile and TLS.GetConfigForClient contradict each other"},
		{"a token file that is not there", webhook.Options{TokenFile: "nowhere"}, "load token: open nowhere"},
		{"an address that is none", webhook.Options{Address: "nonsense"}, "open webhook port: "},
	}
	for _, test := range tests {
		if err := webhook.Serve(t.Context(), says(""), test.options); err == nil || !strings.HasPrefix(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %s", test.reason, err, test.want)
		}
	}
}

// A program that starts while its certificate is renewed finds the new key beside the old
// certificate. It waits, and says so.
func TestServeWaitsForThePair(t *testing.T) {
	t.Parallel()
	right, folder := issued(t), t.TempDir()
	crt, key := filepath.Join(folder, "tls.crt"), filepath.Join(folder, "tls.key")
	copyFile(t, crt, right.CertFile)
	copyFile(t, key, issued(t).KeyFile)
	ctx, cancel := context.WithCancel(t.Context())
	log := &waiting{done: make(chan struct{}), serving: make(chan string, 1), waits: func() { copyFile(t, key, right.KeyFile) }}
	ended := make(chan error, 1)
	go func() {
		ended <- webhook.Serve(ctx, says("hello"), webhook.Options{Address: "127.0.0.1:0", CertFile: crt, KeyFile: key, Log: slog.New(log)})
	}()
	var url string
	select {
	case url = <-log.serving:
	case err := <-ended:
		t.Fatalf("it ended: %v", err)
	case <-time.After(timeout):
		t.Fatal("it does not serve")
	}
	client := trusting(right.CA)
	health := strings.Replace(url, "127.0.0.1", "localhost", 1) + "/healthz"
	response, err := client.Get(health)
	for began := time.Now(); err != nil && time.Since(began) < timeout; response, err = client.Get(health) {
		// The handshake of a busy machine may take longer than a connection has for it.
		time.Sleep(10 * time.Millisecond)
	}
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	client.CloseIdleConnections()
	select {
	case <-log.done:
	default:
		t.Error("it has not said that it waits")
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("it ended with %v", err)
	}
}

// A waiting is a log that mends what the server waits for.
type waiting struct {
	once    sync.Once
	waits   func()
	done    chan struct{}
	serving chan string
}

func (w *waiting) Enabled(context.Context, slog.Level) bool { return true }
func (w *waiting) WithAttrs([]slog.Attr) slog.Handler       { return w }
func (w *waiting) WithGroup(string) slog.Handler            { return w }

func (w *waiting) Handle(_ context.Context, r slog.Record) error {
	switch {
	case strings.Contains(r.Message, "trying again"):
		w.once.Do(func() { w.waits(); close(w.done) })
	case r.Message == "serving":
		r.Attrs(func(a slog.Attr) bool {
			if a.Key == "url" {
				w.serving <- a.Value.String()
			}
			return true
		})
	}
	return nil
}

func issued(t *testing.T) *cert.Issued {
	t.Helper()
	made, err := cert.Issue(t.TempDir(), []string{"localhost"}, 0)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func copyFile(t *testing.T, to, from string) {
	t.Helper()
	content, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, content, 0o600)
	}
	if err != nil {
		t.Error(err)
	}
}

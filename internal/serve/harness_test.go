package serve_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/usher-dev/usher/internal/serve"
)

// A harness is a server that runs until the test ends.
type harness struct {
	t      testing.TB
	server *serve.Server
	client *http.Client
	log    *lockedBuffer
	// mutate is the path of the mutating webhook; /mutate if empty.
	mutate string
	cancel context.CancelFunc
	ended  chan error
	once   sync.Once
}

func start(t testing.TB, config serve.Config) *harness {
	t.Helper()
	return startAt(t, slog.LevelInfo, config)
}

// startAt is start with a log of some level.
func startAt(t testing.TB, level slog.Level, config serve.Config) *harness {
	t.Helper()
	h := &harness{t: t, log: &lockedBuffer{}, ended: make(chan error, 1)}
	config.Log = slog.New(slog.NewTextHandler(h.log, &slog.HandlerOptions{Level: level}))
	config.Listen.MetricsAddress = "127.0.0.1:0"
	var err error
	if h.server, err = serve.New(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(read(t, h.server.CAFile())) {
		t.Fatal("no certificate in the CA bundle")
	}
	h.client = &http.Client{
		Timeout:   20 * time.Second,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS13}},
	}
	var ctx context.Context
	ctx, h.cancel = context.WithCancel(context.Background())
	go func() { h.ended <- h.server.Run(ctx) }()
	t.Cleanup(h.stop)
	return h
}

// stop ends the server and checks that it ended well.
func (h *harness) stop() {
	h.once.Do(func() {
		h.cancel()
		h.client.CloseIdleConnections()
		select {
		case err := <-h.ended:
			if err != nil {
				h.t.Errorf("run: %v", err)
			}
		case <-time.After(20 * time.Second):
			h.t.Error("the server does not end")
		}
	})
}

func (h *harness) eventually(what string, holds func() bool) {
	h.t.Helper()
	deadline := time.After(time.Minute)
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for !holds() {
		select {
		case <-deadline:
			h.t.Fatalf("timed out waiting until %s; the log:\n%s", what, h.log)
		case <-ticker.C:
		}
	}
}

// patch is the patch that the answer to a review carries, decoded; empty for none.
func (h *harness) patch(review []byte) string {
	body, _ := h.post(cmp.Or(h.mutate, "/mutate"), review)
	var answer struct {
		Response struct {
			Patch []byte `json:"patch"`
		} `json:"response"`
	}
	if err := json.Unmarshal([]byte(body), &answer); err != nil {
		return ""
	}
	return string(answer.Response.Patch)
}

func (h *harness) post(path string, body []byte) (string, *http.Response) {
	response, err := h.client.Post(h.server.URL()+path, "application/json", bytes.NewReader(body))
	return h.answer(response, err)
}

func (h *harness) get(path string) string {
	body, _ := h.answer(h.client.Get(h.server.URL() + path))
	return body
}

func (h *harness) status(path string) int {
	_, response := h.answer(h.client.Get(h.server.URL() + path))
	if response == nil {
		return 0
	}
	return response.StatusCode
}

func (h *harness) metrics() string {
	body, _ := h.answer(h.client.Get(h.server.MetricsURL()))
	return body
}

func (h *harness) answer(response *http.Response, err error) (string, *http.Response) {
	if err != nil {
		return err.Error(), nil
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		h.t.Errorf("read answer: %v", err)
	}
	return string(body), response
}

func receive[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	select {
	case value := <-from:
		return value
	case <-time.After(time.Minute):
		t.Fatal("nothing came within a minute")
		panic("unreachable")
	}
}

type lockedBuffer struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.String()
}

func read(t testing.TB, file string) []byte {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func write(t testing.TB, file, content string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func label(value string) string {
	return `apiVersion: policy.kcloudlabs.io/v1alpha1
kind: ClusterOverridePolicy
metadata:
  name: label
spec:
  resourceSelectors:
  - {apiVersion: v1, kind: Pod}
  overrideRules:
  - overriders:
      plaintext:
      - {path: /metadata/annotations, op: add, value: {seen: ` + value + `}}
`
}

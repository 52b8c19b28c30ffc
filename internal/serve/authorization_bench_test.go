//go:build unix

package serve_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/usher-dev/usher/internal/serve"
)

// BenchmarkAuthorization is what a request costs with everything that a server does: TLS,
// HTTP/2, the token, metrics, log, a thousand policies. Null decodes
// nothing and always says the same. Both have the client's work in it, which is the same.
func BenchmarkAuthorization(b *testing.B) {
	body := strings.Replace(review, "RESOURCE", "pods", 1)
	b.Run("null", func(b *testing.B) {
		null := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"kind":"SubjectAccessReview","apiVersion":"authorization.k8s.io/v1","status":{"allowed":false}}`)
		}))
		null.EnableHTTP2 = true
		null.StartTLS()
		defer null.Close()
		askAgain(b, null.Client(), null.URL+"/authorize", body)
	})
	b.Run("usher", func(b *testing.B) {
		dir := b.TempDir()
		write(b, filepath.Join(dir, "token"), "secret")
		write(b, filepath.Join(dir, "policies.yaml"), accessPolicies+manyPolicies(1000))
		server, err := serve.New(b.Context(), serve.Config{
			Policies: []string{filepath.Join(dir, "policies.yaml")}, Log: slog.New(slog.DiscardHandler),
			Authorization: &serve.Authorization{Address: "127.0.0.1:0", Callers: serve.Callers{TokenFile: filepath.Join(dir, "token")}},
		})
		if err != nil {
			b.Fatal(err)
		}
		ctx, cancel := context.WithCancel(b.Context())
		ended := make(chan error, 1)
		go func() { ended <- server.Run(ctx) }()
		defer func() {
			cancel()
			if err := <-ended; err != nil {
				b.Error(err)
			}
		}()
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(read(b, server.CAFile()))
		client := &http.Client{Transport: bearer{&http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true}}}
		defer client.CloseIdleConnections()
		url := server.AuthorizationURL() + "/authorize"
		for deadline := time.Now().Add(20 * time.Second); ; {
			response, err := client.Post(url, "application/json", strings.NewReader(body))
			if err == nil {
				_ = response.Body.Close()
			}
			if err == nil && response.StatusCode == http.StatusOK {
				break
			}
			if time.Now().After(deadline) {
				b.Fatalf("not ready: %v", err)
			}
		}
		askAgain(b, client, url, body)
	})
}

// bearer sends the token.
type bearer struct{ http.RoundTripper }

func (t bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r.Header.Set("Authorization", "Bearer secret")
	return t.RoundTripper.RoundTrip(r)
}

func askAgain(b *testing.B, client *http.Client, url, body string) {
	b.ReportAllocs()
	before := processorTime(b)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			response, err := client.Post(url+"?timeout=3s", "application/json", strings.NewReader(body))
			if err != nil {
				b.Error(err)
				return
			}
			if _, err := io.Copy(io.Discard, response.Body); err != nil || response.StatusCode != http.StatusOK {
				b.Errorf("%d, %v", response.StatusCode, err)
			}
			_ = response.Body.Close()
		}
	})
	b.StopTimer()
	// Unlike the time that passes, it does not depend on what else the machine does.
	b.ReportMetric(float64((processorTime(b)-before).Nanoseconds())/float64(b.N), "cpu-ns/op")
}

// processorTime is what this process has used of processors.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func manyPolicies(n int) string {
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, `---
apiVersion: usher.dev/v1alpha1
kind: ClusterAuthorizationPolicy
metadata: {name: many-%[1]d}
spec:
  effect: Deny
  subjects: [{groups: [team-%[1]d]}]
  rules: [{verbs: [get, list], apiGroups: [""], resources: [secrets], namespaces: [ns-%[1]d]}]
`, i)
	}
	return text.String()
}

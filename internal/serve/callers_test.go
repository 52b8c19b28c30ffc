package serve_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/usher-dev/usher/internal/serve"
)

func TestOnlyCallersAreAnswered(t *testing.T) {
	t.Parallel()
	ours, theirs := newAuthority(t), newAuthority(t)
	caFile := filepath.Join(t.TempDir(), "clients.crt")
	write(t, caFile, string(ours.pem))
	h := start(t, serve.Config{
		Policies: []string{t.TempDir()}, Callers: serve.Callers{ClientCAFile: caFile, ClientNames: []string{"kube-apiserver", "api.example"}},
	})
	h.eventually("the server is ready", func() bool { return h.status("/readyz") == http.StatusOK })
	if h.status("/healthz") != http.StatusOK {
		t.Error("/healthz asks for a certificate")
	}
	review := read(t, reviews+"v1-create-pods.json")
	for _, row := range []struct {
		reason      string
		certificate *tls.Certificate
		want        int
	}{
		{"no certificate", nil, http.StatusUnauthorized},
		{"the common name", ours.issue(t, "kube-apiserver"), http.StatusOK},
		{"a DNS name", ours.issue(t, "x", "api.example"), http.StatusOK},
		{"another name", ours.issue(t, "mallory", "mallory.example"), http.StatusForbidden},
		{"somebody else's CA", theirs.issue(t, "kube-apiserver"), 0},
	} {
		client := h.as(row.certificate)
		for _, path := range []string{"/mutate", "/validate"} {
			response, err := client.Post(h.server.URL()+path, "application/json", strings.NewReader(string(review)))
			got := 0
			if err == nil {
				got = response.StatusCode
				_ = response.Body.Close()
			}
			if got != row.want {
				t.Errorf("%s: %s answers %d (%v), want %d", row.reason, path, got, err, row.want)
			}
		}
		client.CloseIdleConnections()
	}
	h.stop()
}

func TestAnyNameWillDo(t *testing.T) {
	t.Parallel()
	ours := newAuthority(t)
	caFile := filepath.Join(t.TempDir(), "clients.crt")
	write(t, caFile, string(ours.pem))
	h := start(t, serve.Config{Policies: []string{t.TempDir()}, Callers: serve.Callers{ClientCAFile: caFile}})
	h.eventually("the server is ready", func() bool { return h.status("/readyz") == http.StatusOK })
	h.client = h.as(ours.issue(t, "anybody"))
	body, response := h.post("/mutate", read(t, reviews+"v1-create-pods.json"))
	if response == nil || response.StatusCode != http.StatusOK {
		t.Errorf("answered %v: %s", response, body)
	}
	h.stop()
}

// TestTokens: one token of the file will do, and who is refused is counted by reason.
func TestTokens(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "tokens")
	write(t, file, "old\nnew\n")
	h := start(t, serve.Config{Policies: []string{t.TempDir()}, Callers: serve.Callers{TokenFile: file}, Listen: serve.Listening{MetricsAddress: "127.0.0.1:0"}})
	h.eventually("the server is ready", func() bool { return h.status("/readyz") == http.StatusOK })
	review := string(read(t, reviews+"v1-create-pods.json"))
	for _, row := range []struct {
		reason, authorization string
		want                  int
	}{
		{"no token", "", http.StatusUnauthorized},
		{"a wrong one", "Bearer other", http.StatusUnauthorized},
		{"the old one", "Bearer old", http.StatusOK},
		{"the new one", "Bearer new", http.StatusOK},
	} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, h.server.URL()+"/validate", strings.NewReader(review))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", "application/json")
		if row.authorization != "" {
			request.Header.Set("Authorization", row.authorization)
		}
		response, err := h.client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if response.StatusCode != row.want {
			t.Errorf("%s: got %d, want %d", row.reason, response.StatusCode, row.want)
		}
	}
	response, err := http.Get(h.server.MetricsURL())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	metrics, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		`usher_refused_callers_total{door="admission",reason="no_token"} 1`,
		`usher_refused_callers_total{door="admission",reason="wrong_token"} 1`,
		`usher_refused_callers_total{door="admission",reason="no_certificate"} 0`,
	} {
		if !strings.Contains(string(metrics), line+"\n") {
			t.Errorf("the metrics do not have %s", line)
		}
	}
	h.stop()
}

// as is a client of the server that shows a certificate.
func (h *harness) as(certificate *tls.Certificate) *http.Client {
	config := h.client.Transport.(*http.Transport).TLSClientConfig.Clone()
	if certificate != nil {
		// Also one that the server has not asked for.
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return certificate, nil }
	}
	return &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{TLSClientConfig: config}}
}

type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	pem         []byte
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "clients"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &authority{certificate: certificate, key: key, pem: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}
}

func (a *authority) issue(t *testing.T, name string, hosts ...string) *tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, DNSNames: hosts,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

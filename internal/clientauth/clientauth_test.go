package clientauth_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log"
	"log/slog"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/usher-dev/usher/internal/clientauth"
)

type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	pem         string
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "clients"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	template.Raw = der
	return &authority{template, key, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))}
}

func (a *authority) issue(t *testing.T, name string, more x509.Certificate) *tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	more.SerialNumber, more.Subject = big.NewInt(2), pkix.Name{CommonName: name}
	more.NotBefore, more.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	more.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	der, err := x509.CreateCertificate(rand.Reader, &more, a.certificate, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func write(t *testing.T, file, text string) string {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// A server answers callers with ok.
type server struct {
	*httptest.Server
	auth *clientauth.Authenticator
}

func serve(t *testing.T, o clientauth.Options) *server {
	t.Helper()
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	known, err := clientauth.New(o)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(known.Require(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	known.CountFailedHandshakes(s.Config)
	s.TLS = known.ConfigureTLS(&tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &s.TLS.Certificates[0], nil },
	})
	s.StartTLS()
	t.Cleanup(s.Close)
	return &server{s, known}
}

// ask returns the status, 0 if there is no connection.
func (s *server) ask(t *testing.T, certificate *tls.Certificate, token string) int {
	t.Helper()
	config := s.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	if certificate != nil {
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return certificate, nil }
	}
	transport := &http.Transport{TLSClientConfig: config}
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		request.Header.Set("Authorization", token)
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return 0
	}
	_ = response.Body.Close()
	return response.StatusCode
}

func TestCertificates(t *testing.T) {
	t.Parallel()
	ours, theirs := newAuthority(t), newAuthority(t)
	caFile := filepath.Join(t.TempDir(), "ca.crt")
	write(t, caFile, ours.pem)
	uri, err := url.Parse("spiffe://cluster/kube-apiserver")
	if err != nil {
		t.Fatal(err)
	}
	names := []string{"kube-apiserver", "api.example", uri.String()}
	lax := serve(t, clientauth.Options{CAFile: caFile, Names: names})
	strict := serve(t, clientauth.Options{CAFile: caFile, Names: names, RequireClientCert: true, UnknownNameStatus: http.StatusUnauthorized})
	for _, row := range []struct {
		reason      string
		certificate *tls.Certificate
		lax, strict int
	}{
		{"none", nil, 401, 0},
		{"the common name", ours.issue(t, "kube-apiserver", x509.Certificate{}), 200, 200},
		{"a DNS name", ours.issue(t, "x", x509.Certificate{DNSNames: []string{"api.example"}}), 200, 200},
		{"a URI", ours.issue(t, "x", x509.Certificate{URIs: []*url.URL{uri}}), 200, 200},
		{"another name", ours.issue(t, "system:node:n1", x509.Certificate{DNSNames: []string{"api.example.org"}}), 403, 401},
		{"another CA", theirs.issue(t, "kube-apiserver", x509.Certificate{}), 0, 0},
	} {
		if got := lax.ask(t, row.certificate, ""); got != row.lax {
			t.Errorf("%s: got %d, want %d", row.reason, got, row.lax)
		}
		if got := strict.ask(t, row.certificate, ""); got != row.strict {
			t.Errorf("%s, and a certificate is insisted on: got %d, want %d", row.reason, got, row.strict)
		}
	}
	// The CA is replaced.
	write(t, caFile, theirs.pem)
	if err := strict.auth.Reread(); err != nil {
		t.Error(err)
	}
	if got := strict.ask(t, theirs.issue(t, "kube-apiserver", x509.Certificate{}), ""); got != 200 {
		t.Errorf("a certificate of the new CA: got %d", got)
	}
	if got := strict.ask(t, ours.issue(t, "kube-apiserver", x509.Certificate{}), ""); got != 0 {
		t.Errorf("a certificate of the old CA: got %d", got)
	}
	// One that is broken changes nothing.
	write(t, caFile, "nonsense")
	if err := strict.auth.Reread(); err == nil || !strings.Contains(err.Error(), "no certificate in PEM found") {
		t.Errorf("error is %v", err)
	}
	if got := strict.ask(t, theirs.issue(t, "kube-apiserver", x509.Certificate{}), ""); got != 200 {
		t.Errorf("after a broken CA: got %d", got)
	}
}

func TestToken(t *testing.T) {
	t.Parallel()
	file := write(t, filepath.Join(t.TempDir(), "token"), "  secret\n")
	s := serve(t, clientauth.Options{TokenFile: file})
	expect := func(reason, token string, want int) {
		t.Helper()
		if got := s.ask(t, nil, token); got != want {
			t.Errorf("%s: got %d, want %d", reason, got, want)
		}
	}
	expect("the token", "Bearer secret", 200)
	expect("none", "", 401)
	expect("another", "Bearer other", 401)
	expect("the beginning", "Bearer secre", 401)
	expect("another scheme", "Basic secret", 401)
	write(t, file, "new\n\n secret \n")
	if err := s.auth.Reread(); err != nil {
		t.Error(err)
	}
	expect("the new token while both count", "Bearer new", 200)
	expect("the old token while both count", "Bearer secret", 200)
	expect("both tokens at once", "Bearer new\tsecret", 401)
	expect("no token", "Bearer ", 401)
	write(t, file, "new")
	if err := s.auth.Reread(); err != nil {
		t.Error(err)
	}
	expect("the new token", "Bearer new", 200)
	expect("the old token", "Bearer secret", 401)
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := s.auth.Reread(); err == nil {
		t.Error("a file that is gone is no error")
	}
	expect("the token of a file that is gone", "Bearer new", 200)
}

func TestNobodyIsNamed(t *testing.T) {
	t.Parallel()
	s := serve(t, clientauth.Options{})
	if s.auth != nil || s.ask(t, nil, "") != 200 {
		t.Error("somebody is refused")
	}
	if err := s.auth.Run(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestFilesThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	empty := write(t, filepath.Join(dir, "empty"), " \n")
	for want, o := range map[string]clientauth.Options{
		"load client CA: ":      {CAFile: filepath.Join(dir, "gone")},
		"no certificate in PEM": {CAFile: empty},
		"load token: ":          {TokenFile: filepath.Join(dir, "gone")},
		"the file is empty":     {TokenFile: empty},
	} {
		if _, err := clientauth.New(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error is %v, want %q in it", err, want)
		}
	}
}

func TestRefusalsAreCountedByReasonAndLoggedSeldom(t *testing.T) {
	t.Parallel()
	ours, theirs := newAuthority(t), newAuthority(t)
	dir := t.TempDir()
	var mu sync.Mutex
	counted := map[clientauth.Reason]int{}
	count := func(reason clientauth.Reason) {
		mu.Lock()
		defer mu.Unlock()
		counted[reason]++
	}
	var logged lockedBuffer
	o := clientauth.Options{
		CAFile: write(t, filepath.Join(dir, "ca.crt"), ours.pem), Names: []string{"kube-apiserver"},
		TokenFile: write(t, filepath.Join(dir, "token"), "secret"),
		Refused:   count, Log: slog.New(slog.NewTextHandler(&logged, nil)),
	}
	lax := serve(t, o)
	o.RequireClientCert = true
	strict := serve(t, o)
	right := ours.issue(t, "kube-apiserver", x509.Certificate{})
	const each = 3
	for range each {
		lax.ask(t, nil, "Bearer secret")
		strict.ask(t, nil, "Bearer secret")
		lax.ask(t, theirs.issue(t, "kube-apiserver", x509.Certificate{}), "Bearer secret")
		lax.ask(t, ours.issue(t, "mallory", x509.Certificate{}), "Bearer secret")
		lax.ask(t, right, "")
		lax.ask(t, right, "Bearer guess")
		if got := lax.ask(t, right, "Bearer secret"); got != 200 {
			t.Errorf("a caller is answered with %d", got)
		}
	}
	want := map[clientauth.Reason]int{}
	for _, reason := range clientauth.Reasons() {
		want[reason] = each
	}
	want[clientauth.NoCertificate] = 2 * each
	// net/http reports a failed handshake after the client has noticed it.
	lax.Close()
	strict.Close()
	deadline := time.Now().Add(20 * time.Second)
	for {
		mu.Lock()
		diff := cmp.Diff(want, counted)
		mu.Unlock()
		if diff == "" {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("counted (-want +got):\n%s", diff)
		}
		runtime.Gosched()
	}
	for _, reason := range clientauth.Reasons() {
		// There are two servers.
		if n := strings.Count(logged.String(), "reason="+string(reason)); n < 1 || n > 2 {
			t.Errorf("%s is logged %d times", reason, n)
		}
	}
	if strings.Contains(logged.String(), "guess") {
		t.Error("the log has a token")
	}
}

// A lockedBuffer is a buffer for several goroutines.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

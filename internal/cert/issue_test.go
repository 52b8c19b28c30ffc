package cert_test

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/usher-dev/usher/internal/cert"
)

func issue(t *testing.T, folder string, lifetime time.Duration, hosts ...string) *cert.Issued {
	t.Helper()
	issued, err := cert.Issue(folder, hosts, lifetime)
	if err != nil {
		t.Fatal(err)
	}
	return issued
}

// serving is a server that uses what was issued.
func serving(t *testing.T, issued *cert.Issued) *cert.Serving {
	t.Helper()
	s, err := cert.Files(issued.CertFile, issued.KeyFile, issued.CAFile, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestIssue(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "new")
	first := issue(t, folder, 0, "hook.default.svc", "192.0.2.7", "::1")
	s := serving(t, first)
	for _, name := range []string{"hook.default.svc", "192.0.2.7", "::1"} {
		if err := trusts(t, s, first.CA, name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if trusts(t, s, first.CA, "localhost") == nil {
		t.Error("it is for hosts that it is not for")
	}
	if left := time.Until(first.NotAfter); !first.NewCA || left < 364*24*time.Hour || left > 366*24*time.Hour {
		t.Errorf("new CA: %v, expires in %s", first.NewCA, left)
	}
	if !bytes.Equal(first.CA, read(t, first.CAFile)) || !first.NotAfter.Equal(s.NotAfter()) {
		t.Error("what is said is not what is kept")
	}
	modes := map[string]os.FileMode{}
	for _, file := range []string{first.CAFile, filepath.Join(folder, "ca.key"), first.CertFile, first.KeyFile} {
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		modes[info.Name()] = info.Mode()
	}
	if diff := cmp.Diff(map[string]os.FileMode{"ca.crt": 0o644, "ca.key": 0o600, "tls.crt": 0o644, "tls.key": 0o600}, modes); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}

	// Every time there is a new certificate, but the CA stays.
	second := issue(t, folder, 48*time.Hour, "hook.default.svc")
	if second.NewCA || !bytes.Equal(second.CA, first.CA) {
		t.Error("the CA was not used again")
	}
	if leaf(t, serving(t, second)).Equal(leaf(t, s)) {
		t.Error("the certificate is the old one")
	}
	if left := time.Until(second.NotAfter); left < 47*time.Hour || left > 48*time.Hour {
		t.Errorf("expires in %s", left)
	}
	if third := issue(t, folder, 1e6*time.Hour, "hook.default.svc"); third.NotAfter.After(third.CANotAfter) {
		t.Error("it outlives its CA")
	}
}

// A CA that somebody has made with openssl is as good as one of ours.
func TestIssueUsesEveryCA(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	certificate := writeCA(t, folder, true)
	issued := issue(t, folder, 0, "hook.default.svc")
	if issued.NewCA || !bytes.Equal(issued.CA, certificate) {
		t.Error("the CA was not used")
	}
	if err := trusts(t, serving(t, issued), certificate, "hook.default.svc"); err != nil {
		t.Error(err)
	}
}

// writeCA puts a certificate with an RSA key into a folder, as ca.crt and ca.key.
func writeCA(t *testing.T, folder string, isCA bool) []byte {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(1000 * time.Hour),
		BasicConstraintsValid: true, IsCA: isCA, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	write(t, filepath.Join(folder, "ca.crt"), certificate)
	write(t, filepath.Join(folder, "ca.key"), pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}))
	return certificate
}

func TestIssueRefuses(t *testing.T) {
	t.Parallel()
	tests := []struct {
		reason  string
		prepare func(folder string)
		want    string
	}{
		{"a CA without its key", func(folder string) { _ = os.Remove(filepath.Join(folder, "ca.key")) }, "come together: put the missing one back, or use another folder"},
		{"a key without its CA", func(folder string) { _ = os.Remove(filepath.Join(folder, "ca.crt")) }, "come together: put the missing one back, or use another folder"},
		{"a certificate that is no CA", func(folder string) { writeCA(t, folder, false) }, "ca.crt: it is not the certificate of a CA"},
		{"a CA that is none", func(folder string) { write(t, filepath.Join(folder, "ca.crt"), []byte("x")) }, "ca.crt: no certificate in PEM found"},
	}
	for _, test := range tests {
		folder := t.TempDir()
		issue(t, folder, 0, "a")
		test.prepare(folder)
		before := read(t, filepath.Join(folder, "tls.crt"))
		if _, err := cert.Issue(folder, []string{"a"}, 0); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %s", test.reason, err, test.want)
		}
		if !bytes.Equal(before, read(t, filepath.Join(folder, "tls.crt"))) {
			t.Errorf("%s: the certificate has changed", test.reason)
		}
	}
}

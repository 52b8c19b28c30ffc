package cert_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/usher-dev/usher/internal/cert"
)

func selfSigned(t *testing.T, folder string, hosts ...string) *cert.Serving {
	t.Helper()
	s, err := cert.SelfSigned(cert.Options{Dir: folder, Hosts: hosts, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func leaf(t *testing.T, s *cert.Serving) *x509.Certificate {
	t.Helper()
	c, err := s.GetCertificate(nil)
	if err != nil {
		t.Fatal(err)
	}
	return c.Leaf
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func write(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// trusts returns why a client that trusts ca does not trust a server with the
// certificate, under the name.
func trusts(t *testing.T, s *cert.Serving, ca []byte, name string) error {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{GetCertificate: s.GetCertificate})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if connection, err := listener.Accept(); err == nil {
			_ = connection.(*tls.Conn).Handshake()
			_ = connection.Close()
		}
	}()
	connection, err := tls.Dial("tcp", listener.Addr().String(), &tls.Config{RootCAs: roots, ServerName: name})
	if err == nil {
		_ = connection.Close()
	}
	_ = listener.Close()
	<-done
	return err
}

func TestSelfSignedIsTrusted(t *testing.T) {
	t.Parallel()
	for _, folder := range []string{"", filepath.Join(t.TempDir(), "new", "folder")} {
		s := selfSigned(t, folder)
		for _, name := range []string{"localhost", "127.0.0.1", "::1"} {
			if err := trusts(t, s, s.CA(), name); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if trusts(t, s, s.CA(), "example.com") == nil {
			t.Error("it is for hosts that it is not for")
		}
		if trusts(t, s, selfSigned(t, "").CA(), "localhost") == nil {
			t.Error("it is trusted by those who trust another CA")
		}
		if left := time.Until(s.NotAfter()); left < 300*24*time.Hour || left > 398*24*time.Hour {
			t.Errorf("expires in %s", left)
		}
		block, _ := pem.Decode(s.CA())
		ca, err := x509.ParseCertificate(block.Bytes)
		if err != nil || !ca.IsCA || time.Until(ca.NotAfter) < 9*365*24*time.Hour {
			t.Errorf("CA %v, %v", ca, err)
		}
	}
}

func TestSelfSignedIsKept(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	first := selfSigned(t, folder, "usher.svc")
	if got := first.CAFile(); got != filepath.Join(folder, "ca.crt") || !bytes.Equal(read(t, got), first.CA()) {
		t.Errorf("CA file is %s", got)
	}
	modes := map[string]os.FileMode{}
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil {
			t.Fatal(err)
		}
		modes[entry.Name()] = info.Mode()
	}
	if diff := cmp.Diff(map[string]os.FileMode{"ca.crt": 0o644, "ca.key": 0o600, "tls.crt": 0o644, "tls.key": 0o600}, modes); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	again := selfSigned(t, folder, "usher.svc")
	if !leaf(t, again).Equal(leaf(t, first)) {
		t.Error("a certificate that lasts was renewed")
	}
	if selfSigned(t, "").CAFile() != "" {
		t.Error("a CA in memory has a file")
	}
}

func TestSelfSignedIsRenewed(t *testing.T) {
	t.Parallel()
	tests := []struct {
		reason string
		change func(t *testing.T, folder string)
		hosts  []string
		sameCA bool
	}{
		{"it is not for all of the hosts", func(*testing.T, string) {}, []string{"usher.svc", "10.0.0.1"}, true},
		{"it expires soon", func(t *testing.T, folder string) { shorten(t, folder, 29*24*time.Hour) }, nil, true},
		{"its key is gone", func(t *testing.T, folder string) { _ = os.Remove(filepath.Join(folder, "tls.key")) }, nil, true},
		{"its key is that of another", func(t *testing.T, folder string) {
			write(t, filepath.Join(folder, "tls.key"), read(t, filepath.Join(folder, "ca.key")))
		}, nil, true},
		{"it is broken", func(t *testing.T, folder string) { write(t, filepath.Join(folder, "tls.crt"), []byte("x")) }, nil, true},
		{"its CA is gone", func(t *testing.T, folder string) { _ = os.Remove(filepath.Join(folder, "ca.crt")) }, nil, false},
		{"its CA is another", func(t *testing.T, folder string) {
			other := t.TempDir()
			selfSigned(t, other)
			for _, name := range []string{"ca.crt", "ca.key"} {
				write(t, filepath.Join(folder, name), read(t, filepath.Join(other, name)))
			}
		}, nil, false},
	}
	for _, test := range tests {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			hosts := []string{"usher.svc"}
			first := selfSigned(t, folder, hosts...)
			test.change(t, folder)
			if test.hosts != nil {
				hosts = test.hosts
			}
			second := selfSigned(t, folder, hosts...)
			if leaf(t, second).Equal(leaf(t, first)) {
				t.Error("it was not renewed")
			}
			if same := bytes.Equal(first.CA(), second.CA()); same != test.sameCA {
				t.Errorf("the same CA: %v", same)
			}
			for _, host := range hosts {
				if err := trusts(t, second, read(t, second.CAFile()), host); err != nil {
					t.Errorf("%s: %v", host, err)
				}
			}
			if third := selfSigned(t, folder, hosts...); !leaf(t, third).Equal(leaf(t, second)) {
				t.Error("the new one was not kept")
			}
		})
	}
}

// A certificate that lasts longer than that is not renewed, regardless of its issuer.
func TestSelfSignedUsesWhatLasts(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	selfSigned(t, folder, "usher.svc")
	shorten(t, folder, 31*24*time.Hour)
	if left := time.Until(selfSigned(t, folder, "usher.svc").NotAfter()); left > 32*24*time.Hour {
		t.Errorf("it was renewed, and expires in %s", left)
	}
}

// shorten replaces the certificate of a folder with one for usher.svc that expires then.
func shorten(t *testing.T, folder string, left time.Duration) {
	t.Helper()
	ca, err := tls.LoadX509KeyPair(filepath.Join(folder, "ca.crt"), filepath.Join(folder, "ca.key"))
	if err != nil {
		t.Fatal(err)
	}
	key, err := tls.LoadX509KeyPair(filepath.Join(folder, "tls.crt"), filepath.Join(folder, "tls.key"))
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{"usher.svc"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(left),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca.Leaf, key.PrivateKey.(*ecdsa.PrivateKey).Public(), ca.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(folder, "tls.crt"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

func TestWhatCannotBeUsedIsNamed(t *testing.T) {
	t.Parallel()
	one, other := t.TempDir(), t.TempDir()
	selfSigned(t, one)
	selfSigned(t, other)
	garbage := filepath.Join(one, "garbage")
	write(t, garbage, []byte("-----BEGIN X-----\n"))
	crt, key := filepath.Join(one, "tls.crt"), filepath.Join(one, "tls.key")
	tests := []struct {
		reason       string
		crt, key, ca string
		want         string
	}{
		{"no certificate", filepath.Join(one, "x"), key, "", "load certificate: open " + filepath.Join(one, "x") + ": no such file or directory"},
		{"no key", crt, filepath.Join(one, "x"), "", "load key: open " + filepath.Join(one, "x") + ": no such file or directory"},
		{"no CA", crt, key, filepath.Join(one, "x"), "load CA: open " + filepath.Join(one, "x") + ": no such file or directory"},
		{"a certificate that is none", garbage, key, "", "load certificate " + garbage + ": no certificate in PEM found"},
		{"a key in place of a certificate", key, key, "", "load certificate " + key + ": no certificate in PEM found"},
		{"a key that is none", crt, garbage, "", "load key " + garbage + ": no key in PEM found"},
		{"a CA that is none", crt, key, garbage, "load CA " + garbage + ": no certificate in PEM found"},
		{
			"a certificate with the key of another", crt, filepath.Join(other, "tls.key"), "",
			"load certificate " + crt + " with key " + filepath.Join(other, "tls.key") + ": tls: private key does not match public key",
		},
	}
	for _, test := range tests {
		if _, err := cert.Files(test.crt, test.key, test.ca, nil); err == nil || err.Error() != test.want {
			t.Errorf("%s: got %v, want %s", test.reason, err, test.want)
		}
	}
	write(t, filepath.Join(one, "ca.key"), read(t, filepath.Join(other, "ca.key")))
	_, err := cert.SelfSigned(cert.Options{Dir: one})
	if want := "load certificate " + filepath.Join(one, "ca.crt") + " with key " + filepath.Join(one, "ca.key"); err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("a CA with the key of another: %v", err)
	}
	if _, err := cert.SelfSigned(cert.Options{Dir: garbage}); err == nil || !strings.Contains(err.Error(), garbage) {
		t.Errorf("a folder that is a file: %v", err)
	}
}

// follow runs s and returns its log, line by line.
func follow(t *testing.T, open func(log *slog.Logger) (*cert.Serving, error)) (s *cert.Serving, next func() string) {
	t.Helper()
	out, in := io.Pipe()
	s, err := open(slog.New(slog.NewTextHandler(in, nil)))
	if err != nil {
		t.Fatal(err)
	}
	lines := make(chan string, 100)
	go func() {
		buffer := make([]byte, 64<<10)
		for {
			n, err := out.Read(buffer)
			if err != nil {
				return
			}
			lines <- string(buffer[:n])
		}
	}()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
		_ = in.Close()
	})
	return s, func() string {
		t.Helper()
		select {
		case line := <-lines:
			return line
		case <-time.After(30 * time.Second):
			t.Fatal("nothing is logged")
			return ""
		}
	}
}

func TestFilesAreFollowed(t *testing.T) {
	t.Parallel()
	// As a mounted Secret: the files are links through a link that is replaced.
	mount, old, renewed := t.TempDir(), t.TempDir(), t.TempDir()
	first, second := selfSigned(t, old), selfSigned(t, renewed)
	link := func(target, name string) {
		t.Helper()
		temporary := filepath.Join(mount, "..tmp")
		if err := os.Symlink(target, temporary); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(temporary, filepath.Join(mount, name)); err != nil {
			t.Fatal(err)
		}
	}
	link(old, "..data")
	for _, name := range []string{"tls.crt", "tls.key", "ca.crt"} {
		link(filepath.Join("..data", name), name)
	}
	s, next := follow(t, func(log *slog.Logger) (*cert.Serving, error) {
		return cert.Files(filepath.Join(mount, "tls.crt"), filepath.Join(mount, "tls.key"), filepath.Join(mount, "ca.crt"), log)
	})
	if !leaf(t, s).Equal(leaf(t, first)) || !bytes.Equal(s.CA(), first.CA()) || s.CAFile() != filepath.Join(mount, "ca.crt") {
		t.Fatal("it is not the certificate of the files")
	}
	link(renewed, "..data")
	if line := next(); !strings.Contains(line, "certificate renewed") {
		t.Fatal(line)
	}
	if !leaf(t, s).Equal(leaf(t, second)) || !bytes.Equal(s.CA(), second.CA()) {
		t.Error("it is not the certificate that the files hold now")
	}
	if err := trusts(t, s, s.CA(), "localhost"); err != nil {
		t.Error(err)
	}

	write(t, filepath.Join(renewed, "tls.key"), []byte("broken"))
	link(renewed, "..data")
	if line := next(); !strings.Contains(line, "level=ERROR") || !strings.Contains(line, filepath.Join(mount, "tls.key")) {
		t.Errorf("the file is not named: %s", line)
	}
	if !leaf(t, s).Equal(leaf(t, second)) {
		t.Error("a broken file has replaced the certificate")
	}
	link(old, "..data")
	if line := next(); !strings.Contains(line, "certificate renewed") || !leaf(t, s).Equal(leaf(t, first)) {
		t.Errorf("it has not recovered: %s", line)
	}
}

func TestRunEnds(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := selfSigned(t, "").Run(ctx); err != nil {
		t.Error(err)
	}
}

func BenchmarkSelfSigned(b *testing.B) {
	for b.Loop() {
		if _, err := cert.SelfSigned(cert.Options{}); err != nil {
			b.Fatal(err)
		}
	}
}

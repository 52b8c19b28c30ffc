package serve

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"sync/atomic"
	"time"
)

// callers are those who may ask for decisions, by their certificates. A nil *callers lets
// everybody.
type callers struct {
	file  string
	names []string
	log   *slog.Logger
	// trusted is who vouches for them.
	trusted atomic.Pointer[x509.CertPool]
	content []byte
}

// newCallers returns nil if the configuration names nobody.
func newCallers(c Config) (*callers, error) {
	if c.ClientCAFile == "" {
		return nil, nil
	}
	k := &callers{file: c.ClientCAFile, names: c.ClientNames, log: c.Log}
	return k, k.read()
}

var errNoCertificate = errors.New("no certificate in PEM found")

func (k *callers) read() error {
	content, err := os.ReadFile(k.file)
	if err != nil {
		return fmt.Errorf("load client CA: %w", err)
	}
	if bytes.Equal(content, k.content) {
		return nil
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(content) {
		return fmt.Errorf("load client CA %s: %w", k.file, errNoCertificate)
	}
	k.content = content
	k.trusted.Store(pool)
	return nil
}

// run reads the file again every now and then. One that cannot be read changes nothing.
func (k *callers) run(ctx context.Context) error {
	if k == nil {
		return nil
	}
	ticker := time.NewTicker(10 * time.Second)
	defer ticker.Stop()
	complaint := ""
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		err := k.read()
		if err != nil && err.Error() != complaint {
			k.log.Error("client CA cannot be read, the old one goes on", "error", err)
		}
		complaint = text(err)
	}
}

// ask makes a server ask for certificates. It does not insist: probes have none.
func (k *callers) ask(c *tls.Config) *tls.Config {
	if k == nil {
		return c
	}
	// A session that is resumed would carry on with what was trusted then.
	c.SessionTicketsDisabled = true
	asking := c.Clone()
	asking.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		current := c.Clone()
		current.ClientAuth, current.ClientCAs = tls.VerifyClientCertIfGiven, k.trusted.Load()
		return current, nil
	}
	return asking
}

// only passes on what callers ask, and refuses the rest.
func (k *callers) only(next http.Handler) http.Handler {
	if k == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
			k.log.Warn("request refused: no client certificate", "from", r.RemoteAddr, "path", r.URL.Path)
			http.Error(w, "a client certificate is required", http.StatusUnauthorized)
			return
		}
		leaf := r.TLS.VerifiedChains[0][0]
		if !k.may(leaf) {
			k.log.Warn("request refused: not one of --client-names", "name", leaf.Subject.CommonName, "from", r.RemoteAddr, "path", r.URL.Path)
			http.Error(w, fmt.Sprintf("%q may not ask for decisions", leaf.Subject.CommonName), http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (k *callers) may(leaf *x509.Certificate) bool {
	if len(k.names) == 0 || slices.Contains(k.names, leaf.Subject.CommonName) {
		return true
	}
	return slices.ContainsFunc(leaf.DNSNames, func(name string) bool { return slices.Contains(k.names, name) })
}

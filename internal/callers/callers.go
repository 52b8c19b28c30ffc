// Package callers knows who may ask a server for decisions: by client certificate, by
// bearer token, or both. The files that it reads are read again when they change.
package callers

import (
	"bytes"
	"context"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// Options say who may ask. The zero value lets everybody.
type Options struct {
	// CAFile holds who vouches for callers, in PEM; empty means nobody has to. Names are
	// what one of them must be called, as common name, DNS name or URI; none means anything.
	CAFile string
	Names  []string
	// Insist tells that a connection without a certificate is not even made. Otherwise only
	// what [Callers.Only] guards is refused, and probes need none.
	Insist bool
	// Stranger is the HTTP status for certificates with other names; 0 means 403.
	Stranger int
	// TokenFile holds a bearer token that callers have to send; empty means none. Space
	// around it does not count.
	TokenFile string
	// Log is slog.Default if nil.
	Log *slog.Logger
}

// Callers are those who may ask. A nil *Callers is everybody.
type Callers struct {
	options Options
	// trusted is who vouches for them.
	trusted atomic.Pointer[x509.CertPool]
	content []byte
	token   atomic.Pointer[[]byte]
}

// New reads the files. It returns nil if the options name none.
func New(o Options) (*Callers, error) {
	if o.CAFile == "" && o.TokenFile == "" {
		return nil, nil
	}
	if o.Stranger == 0 {
		o.Stranger = http.StatusForbidden
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	k := &Callers{options: o}
	return k, k.read()
}

var (
	errNoCertificate = errors.New("no certificate in PEM found")
	errNoToken       = errors.New("the file is empty")
)

func (k *Callers) read() error { return errors.Join(k.readCA(), k.readToken()) }

func (k *Callers) readCA() error {
	if k.options.CAFile == "" {
		return nil
	}
	content, err := os.ReadFile(k.options.CAFile)
	if err != nil {
		return fmt.Errorf("load client CA: %w", err)
	}
	if bytes.Equal(content, k.content) {
		return nil
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(content) {
		return fmt.Errorf("load client CA %s: %w", k.options.CAFile, errNoCertificate)
	}
	k.content = content
	k.trusted.Store(pool)
	return nil
}

func (k *Callers) readToken() error {
	if k.options.TokenFile == "" {
		return nil
	}
	content, err := os.ReadFile(k.options.TokenFile)
	if err != nil {
		return fmt.Errorf("load token: %w", err)
	}
	token := bytes.TrimSpace(content)
	if len(token) == 0 {
		return fmt.Errorf("load token %s: %w", k.options.TokenFile, errNoToken)
	}
	k.token.Store(&token)
	return nil
}

// Run reads the files again every now and then, until ctx is done. One that cannot be read
// changes nothing.
func (k *Callers) Run(ctx context.Context) error {
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
		complaint = k.reread(complaint)
	}
}

// reread complains unless it has done so about the same before.
func (k *Callers) reread(before string) (complaint string) {
	err := k.read()
	if err == nil {
		return ""
	}
	if err.Error() != before {
		k.options.Log.Error("who may ask cannot be read, what was read before goes on", "error", err)
	}
	return err.Error()
}

// Ask makes a server ask for certificates.
func (k *Callers) Ask(c *tls.Config) *tls.Config {
	if k == nil || k.options.CAFile == "" {
		return c
	}
	// A session that is resumed would carry on with what was trusted then.
	c.SessionTicketsDisabled = true
	kind := tls.VerifyClientCertIfGiven
	if k.options.Insist {
		kind = tls.RequireAndVerifyClientCert
	}
	asking := c.Clone()
	asking.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		current := c.Clone()
		current.ClientAuth, current.ClientCAs = kind, k.trusted.Load()
		return current, nil
	}
	return asking
}

// Only passes on what callers ask, and refuses the rest.
func (k *Callers) Only(next http.Handler) http.Handler {
	if k == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if code, err := k.check(r); err != nil {
			k.options.Log.Warn("request refused", "error", err, "from", r.RemoteAddr, "path", r.URL.Path)
			http.Error(w, err.Error(), code)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// check returns why a request is refused, and the status.
func (k *Callers) check(r *http.Request) (int, error) {
	if k.options.CAFile != "" {
		if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
			return http.StatusUnauthorized, errors.New("a client certificate is required")
		}
		leaf := r.TLS.VerifiedChains[0][0]
		if !k.may(leaf) {
			return k.options.Stranger, fmt.Errorf("%q may not ask for decisions", leaf.Subject.CommonName)
		}
	}
	if token := k.token.Load(); token != nil {
		sent, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if !ok || subtle.ConstantTimeCompare([]byte(sent), *token) != 1 {
			return http.StatusUnauthorized, errors.New("a bearer token is required, and it must be the right one")
		}
	}
	return 0, nil
}

func (k *Callers) may(leaf *x509.Certificate) bool {
	known := func(name string) bool { return slices.Contains(k.options.Names, name) }
	return len(k.options.Names) == 0 || known(leaf.Subject.CommonName) || slices.ContainsFunc(leaf.DNSNames, known) ||
		slices.ContainsFunc(leaf.URIs, func(u *url.URL) bool { return known(u.String()) })
}

// Package clientauth authenticates the callers of a server: by client certificate, by bearer token,
// or both. It reloads its files when they change.
package clientauth

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/usher-dev/usher/internal/ratelog"
	"github.com/usher-dev/usher/internal/reload"
)

// Options are the credentials that callers need. The zero value accepts everybody.
type Options struct {
	// CAFile is the CA of client certificates, in PEM; empty means that none is needed. Names are
	// the names that a certificate must have one of, as common name, DNS name or URI; if there are
	// none, any name works.
	CAFile string
	Names  []string
	// RequireClientCert rejects connections without a certificate. Otherwise only the handlers that
	// [Authenticator.Require] guards need one, and probes do not.
	RequireClientCert bool
	// UnknownNameStatus is the HTTP status for certificates with other names; 0 means 403.
	UnknownNameStatus int
	// TokenFile holds the bearer tokens that callers may send, one a line; empty means that
	// they need none. Space around a token does not count, nor do empty lines. With two of
	// them, API servers can change from one to the other at their own pace.
	TokenFile string
	// Refused, which may be nil, is called for each caller that is refused.
	Refused func(Reason)
	// Log is slog.Default if nil. It receives one record every few seconds for callers that are
	// rejected for the same reason.
	Log *slog.Logger
}

// An Authenticator authenticates callers. A nil *Authenticator accepts everybody.
type Authenticator struct {
	options Options
	ca      reload.File
	token   reload.File
	// trusted is who vouches for them.
	trusted atomic.Pointer[x509.CertPool]
	// tokens are the hashes of the tokens, which are compared in constant time.
	tokens atomic.Pointer[[][sha256.Size]byte]
	log    *ratelog.Logger
}

// New reads the files. It returns nil if the options name none.
func New(o Options) (*Authenticator, error) {
	if o.CAFile == "" && o.TokenFile == "" {
		return nil, nil
	}
	if o.UnknownNameStatus == 0 {
		o.UnknownNameStatus = http.StatusForbidden
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Refused == nil {
		o.Refused = func(Reason) {}
	}
	k := &Authenticator{options: o, ca: reload.File{Path: o.CAFile}, token: reload.File{Path: o.TokenFile}, log: ratelog.New(o.Log)}
	return k, k.read()
}

var (
	errNoCertificate = errors.New("no certificate in PEM found")
	errNoToken       = errors.New("the file is empty")
)

func (k *Authenticator) read() error { return errors.Join(k.readCA(), k.readTokens()) }

func (k *Authenticator) readCA() error {
	if k.options.CAFile == "" {
		return nil
	}
	err := k.ca.Load(func(content []byte) error {
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(content) {
			return fmt.Errorf("%s: %w", k.options.CAFile, errNoCertificate)
		}
		k.trusted.Store(pool)
		return nil
	})
	if err != nil {
		return fmt.Errorf("load client CA: %w", err)
	}
	return nil
}

func (k *Authenticator) readTokens() error {
	if k.options.TokenFile == "" {
		return nil
	}
	err := k.token.Load(func(content []byte) error {
		var tokens [][sha256.Size]byte
		for line := range bytes.Lines(content) {
			if token := bytes.TrimSpace(line); len(token) > 0 {
				tokens = append(tokens, sha256.Sum256(token))
			}
		}
		if len(tokens) == 0 {
			return fmt.Errorf("%s: %w", k.options.TokenFile, errNoToken)
		}
		k.tokens.Store(&tokens)
		return nil
	})
	if err != nil {
		return fmt.Errorf("load token: %w", err)
	}
	return nil
}

// Run reloads the files from time to time, until ctx is done. A file that cannot be read changes
// nothing.
func (k *Authenticator) Run(ctx context.Context) error {
	if k == nil {
		return nil
	}
	reload.Loop{
		Every: 10 * time.Second,
		Load:  func(context.Context) error { return k.read() },
		Report: func(err error) {
			k.options.Log.Error("who may ask cannot be read, what was read before goes on", "error", err)
		},
	}.Run(ctx)
	return nil
}

// ConfigureTLS makes a server request client certificates.
func (k *Authenticator) ConfigureTLS(c *tls.Config) *tls.Config {
	if k == nil || k.options.CAFile == "" {
		return c
	}
	// A resumed session would keep the trust of its start.
	c.SessionTicketsDisabled = true
	kind := tls.VerifyClientCertIfGiven
	if k.options.RequireClientCert {
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

// Require passes on what callers ask, and refuses the rest.
func (k *Authenticator) Require(next http.Handler) http.Handler {
	if k == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if refused := k.check(r); refused != nil {
			k.refuse(refused.reason, "error", refused.message, "from", r.RemoteAddr)
			http.Error(w, refused.message, refused.code)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// A refused is the reason why a request is rejected.
type refused struct {
	reason  Reason
	code    int
	message string
}

func (k *Authenticator) check(r *http.Request) *refused {
	if k.options.CAFile != "" {
		if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
			return &refused{NoCertificate, http.StatusUnauthorized, "a client certificate is required"}
		}
		leaf := r.TLS.VerifiedChains[0][0]
		if !k.nameAllowed(leaf) {
			return &refused{WrongName, k.options.UnknownNameStatus, fmt.Sprintf("%q may not ask for decisions", leaf.Subject.CommonName)}
		}
	}
	if k.options.TokenFile == "" {
		return nil
	}
	sent, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	switch {
	case !ok:
		return &refused{NoToken, http.StatusUnauthorized, "a bearer token is required, and it must be the right one"}
	case !k.hasToken(sent):
		return &refused{WrongToken, http.StatusUnauthorized, "a bearer token is required, and it must be the right one"}
	}
	return nil
}

// hasToken reports whether a token is one of those in the file.
func (k *Authenticator) hasToken(sent string) bool {
	hash, found := sha256.Sum256([]byte(sent)), 0
	for _, token := range *k.tokens.Load() {
		found |= subtle.ConstantTimeCompare(hash[:], token[:])
	}
	return found == 1
}

func (k *Authenticator) nameAllowed(leaf *x509.Certificate) bool {
	known := func(name string) bool { return slices.Contains(k.options.Names, name) }
	return len(k.options.Names) == 0 || known(leaf.Subject.CommonName) || slices.ContainsFunc(leaf.DNSNames, known) ||
		slices.ContainsFunc(leaf.URIs, func(u *url.URL) bool { return known(u.String()) })
}

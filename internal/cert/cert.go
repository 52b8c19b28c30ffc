// Package cert gives a server its certificate: a self-signed one, in memory or kept in a folder or
// a Secret, or one from files that another program renews.
//
//	serving, err := cert.SelfSigned(cert.Options{Hosts: []string{"usher.usher-system.svc"}})
//	server.TLSConfig = &tls.Config{GetCertificate: serving.GetCertificate}
//	go serving.Run(ctx)
//
// A certificate that cannot be renewed or read stays in use: an old one is better than none, and
// API servers report what is wrong with it.
package cert

import (
	"context"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/usher-dev/usher/internal/changes"
	"github.com/usher-dev/usher/internal/reload"
)

// A Serving is the certificate of a server. It is safe for concurrent use.
type Serving struct {
	current atomic.Pointer[identity]
	// previous is the one that was current before; nil if there was none.
	previous atomic.Pointer[identity]
	caFile   string
	log      *slog.Logger
	// watch are the folders in which changes are waited for, every how often they are
	// looked for anyhow.
	watch []string
	every time.Duration
	// load returns the identity to use after last, which may be nil; it returns last itself if
	// nothing is new.
	load func(ctx context.Context, last *identity) (*identity, error)
	// changes has a buffer of one.
	changes chan struct{}
}

// An identity is a certificate and the CA that clients have to trust. It is immutable.
type identity struct {
	certificate *tls.Certificate
	// certPEM and keyPEM are what certificate was made from, caPEM is the CA's certificate.
	certPEM, keyPEM, caPEM []byte
}

// Options are where a self-signed certificate is kept and its hosts.
type Options struct {
	// Dir is the folder of ca.crt, ca.key, tls.crt and tls.key, so that clients still trust the
	// server after a restart. If it is empty, they are kept in memory. [FromSecret] ignores it.
	Dir string
	// Hosts are the DNS names and IP addresses of the server; none means localhost,
	// 127.0.0.1 and ::1.
	Hosts []string
	// Log receives later events of the certificate; nil means slog.Default.
	Log *slog.Logger
}

// SelfSigned returns a certificate of a CA of its own. One in the folder is used if it is valid for
// the hosts.
func SelfSigned(o Options) (*Serving, error) {
	if len(o.Hosts) == 0 {
		o.Hosts = []string{"localhost", "127.0.0.1", "::1"}
	}
	m := &maker{hosts: o.Hosts, now: time.Now}
	s := &Serving{log: o.Log, every: 12 * time.Hour, load: local(m.renew)}
	if o.Dir != "" {
		k := &keeper{maker: m, dir: o.Dir}
		s.load, s.caFile = local(k.renew), k.path(caCert)
	}
	return s.start(context.Background())
}

// Files returns the certificate in certFile, with its chain, and the key in keyFile, both
// in PEM, and follows their changes. caFile holds what clients are to trust; it may be
// empty if they know.
func Files(certFile, keyFile, caFile string, log *slog.Logger) (*Serving, error) {
	f := &files{cert: certFile, key: keyFile, ca: caFile}
	s := &Serving{caFile: caFile, log: log, every: 10 * time.Second, watch: f.folders(), load: local(f.reload)}
	return s.start(context.Background())
}

// local means that loading uses no other service, and so does not wait.
func local(load func(last *identity) (*identity, error)) func(context.Context, *identity) (*identity, error) {
	return func(_ context.Context, last *identity) (*identity, error) { return load(last) }
}

func (s *Serving) start(ctx context.Context) (*Serving, error) {
	if s.log == nil {
		s.log = slog.Default()
	}
	s.changes = make(chan struct{}, 1)
	first, err := s.load(ctx, nil)
	if err != nil {
		return nil, err
	}
	s.current.Store(first)
	return s, nil
}

// GetCertificate is for tls.Config. It returns the current certificate to every client.
func (s *Serving) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return s.current.Load().certificate, nil
}

// Keys returns keys for a purpose, known to all who have the private key of the certificate, and to
// nobody else: one of the current private key, and then one of the previous one.
func (s *Serving) Keys(purpose string) [][]byte {
	var keys [][]byte
	for _, i := range []*identity{s.current.Load(), s.previous.Load()} {
		if i == nil {
			continue
		}
		private, err := x509.MarshalPKCS8PrivateKey(i.certificate.PrivateKey)
		if err != nil {
			continue
		}
		if key, err := hkdf.Key(sha256.New, private, nil, purpose, sha256.Size); err == nil {
			keys = append(keys, key)
		}
	}
	return keys
}

// CA returns the certificates that clients are to trust, in PEM; nil if they are not known.
func (s *Serving) CA() []byte { return s.current.Load().caPEM }

// Changes returns a channel that signals, while Run runs, that NotAfter or CA has changed. Unread
// signals are merged. It is for one reader.
func (s *Serving) Changes() <-chan struct{} { return s.changes }

// CAFile returns the file that holds what CA returns, empty if there is none.
func (s *Serving) CAFile() string { return s.caFile }

// NotAfter returns when the current certificate expires.
func (s *Serving) NotAfter() time.Time { return s.current.Load().certificate.Leaf.NotAfter }

// Run keeps the certificate current until ctx is done, and then returns nil. What goes
// wrong is logged, once as long as it stays the same.
func (s *Serving) Run(ctx context.Context) error {
	folders := changes.Watch(s.watch...)
	defer folders.Close()
	reload.Loop{
		Every: s.every, Changes: folders.Changed(), Load: s.refresh,
		Report: func(err error) {
			s.log.Error("certificate cannot be renewed, the old one goes on", "error", err, "expires", s.NotAfter())
		},
	}.Run(ctx)
	return nil
}

// refresh loads what is new.
func (s *Serving) refresh(ctx context.Context) error {
	last := s.current.Load()
	next, err := s.load(ctx, last)
	if err != nil || next == last {
		return err
	}
	s.previous.Store(last)
	s.current.Store(next)
	s.log.Info("certificate renewed", "expires", s.NotAfter())
	changes.Signal(s.changes)
	return nil
}

// newIdentity checks that a certificate and a key match. The names are for errors.
func newIdentity(certPEM, keyPEM, caPEM []byte, certName, keyName string) (*identity, error) {
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err == nil {
		return &identity{certificate: &pair, certPEM: certPEM, keyPEM: keyPEM, caPEM: caPEM}, nil
	}
	if _, certErr := certificatesOf(certPEM); certErr != nil {
		return nil, fmt.Errorf("load certificate %s: %w", certName, certErr)
	}
	if _, keyErr := keyOf(keyPEM); keyErr != nil {
		return nil, fmt.Errorf("load key %s: %w", keyName, keyErr)
	}
	return nil, fmt.Errorf("load certificate %s with key %s: %w", certName, keyName, err)
}

// covers reports whether a certificate is valid for all of the hosts.
func covers(leaf *x509.Certificate, hosts []string) bool {
	for _, host := range hosts {
		if leaf.VerifyHostname(host) != nil {
			return false
		}
	}
	return true
}

var (
	errNoCertificate = errors.New("no certificate in PEM found")
	errNoKey         = errors.New("no key in PEM found")
	errNotCA         = errors.New("it is not the certificate of a CA")
)

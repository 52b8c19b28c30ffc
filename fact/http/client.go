package http

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	nethttp "net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/usher-dev/usher/fact"
)

const (
	// maxClients is how many TLS configurations keep their connections.
	maxClients   = 64
	maxRedirects = 10
)

// clients keeps a client, and with it its connections, for each TLS configuration.
type clients struct {
	options Options

	mu    sync.Mutex
	known map[tlsKey]*client
	uses  uint64
}

// A tlsKey identifies a TLS configuration; the zero key is none.
type tlsKey [sha256.Size]byte

type client struct {
	*nethttp.Client
	used uint64
}

func newClients(o Options) *clients {
	return &clients{options: o, known: map[tlsKey]*client{}}
}

// of returns the client for a TLS configuration; nil trusts the roots of the system.
func (c *clients) of(t *fact.TLS) (*nethttp.Client, error) {
	var key tlsKey
	if t != nil {
		key = sha256.Sum256(fmt.Appendf(nil, "%q", *t))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.uses++
	if known, ok := c.known[key]; ok {
		known.used = c.uses
		return known.Client, nil
	}
	config, err := tlsConfig(t)
	if err != nil {
		return nil, err
	}
	if len(c.known) >= maxClients {
		c.dropOldest()
	}
	fresh := &client{Client: newClient(c.options, config), used: c.uses}
	c.known[key] = fresh
	return fresh.Client, nil
}

func (c *clients) dropOldest() {
	var oldest tlsKey
	used := c.uses
	for key, known := range c.known {
		if known.used < used {
			oldest, used = key, known.used
		}
	}
	if known, ok := c.known[oldest]; ok {
		known.CloseIdleConnections()
		delete(c.known, oldest)
	}
}

func tlsConfig(t *fact.TLS) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if t == nil {
		return config, nil
	}
	config.RootCAs = x509.NewCertPool()
	if !config.RootCAs.AppendCertsFromPEM([]byte(t.CA)) {
		return nil, errors.New("parse ca: there is no certificate in it")
	}
	if t.Cert == "" && t.Key == "" {
		return config, nil
	}
	if t.Cert == "" || t.Key == "" {
		return nil, errors.New("parse client certificate: certificate and key come together")
	}
	pair, err := tls.X509KeyPair([]byte(t.Cert), []byte(t.Key))
	if err != nil {
		return nil, fmt.Errorf("parse client certificate: %w", err)
	}
	config.Certificates = []tls.Certificate{pair}
	return config, nil
}

func newClient(o Options, config *tls.Config) *nethttp.Client {
	dialer := &net.Dialer{Timeout: 5 * time.Second, KeepAlive: 30 * time.Second, Resolver: o.Resolver}
	if !o.AllowLocal {
		dialer.ControlContext = (&guard{own: o.Own, resolver: o.Resolver}).check
	}
	return &nethttp.Client{
		CheckRedirect: stayOnHost,
		Transport: &nethttp.Transport{
			Proxy:                  o.Proxy,
			DialContext:            dialer.DialContext,
			TLSClientConfig:        config,
			ForceAttemptHTTP2:      true,
			TLSHandshakeTimeout:    5 * time.Second,
			ExpectContinueTimeout:  time.Second,
			MaxIdleConns:           64,
			MaxIdleConnsPerHost:    16,
			IdleConnTimeout:        90 * time.Second,
			MaxResponseHeaderBytes: 256 << 10,
		},
	}
}

// stayOnHost allows redirects within one host and scheme. So data for one host, such as
// credentials, never reaches another.
func stayOnHost(next *nethttp.Request, before []*nethttp.Request) error {
	if len(before) > maxRedirects {
		return fmt.Errorf("redirect: more than %d", maxRedirects)
	}
	if from := origin(before[0].URL); origin(next.URL) != from {
		return fmt.Errorf("redirect from %s to %s: only redirects within a host are followed", from, origin(next.URL))
	}
	return nil
}

// origin is scheme, host and port of a URL.
func origin(u *url.URL) string {
	port := u.Port()
	switch {
	case port != "":
	case u.Scheme == "https":
		port = "443"
	default:
		port = "80"
	}
	return u.Scheme + "://" + net.JoinHostPort(strings.ToLower(u.Hostname()), port)
}

package serve

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"

	"github.com/usher-dev/usher/internal/graceful"
)

// An endpoint is a port at which a server serves HTTPS.
type endpoint struct {
	// name is that of the endpoint in metrics and logs, and port that of its port in errors.
	name, port string
	callers    callers
	server     *graceful.Server
	listener   net.Listener
	// ending is called before the server shuts down; it may be nil.
	ending func()
}

// callers know who may call an endpoint.
type callers interface {
	ConfigureTLS(c *tls.Config) *tls.Config
	Run(ctx context.Context) error
}

// open opens the port of an endpoint, which has no handler yet.
func (s *Server) open(e *endpoint, address string) (err error) {
	if e.listener, err = net.Listen("tcp", address); err != nil {
		return fmt.Errorf("open %s port: %w", e.port, err)
	}
	log := s.config.Log
	if e.name != "admission" {
		log = log.With("server", e.name)
	}
	e.server = graceful.New(s.config.Listen.ShutdownGrace, log)
	e.server.TLSConfig = e.callers.ConfigureTLS(&tls.Config{
		MinVersion:     s.config.TLS.MinVersion,
		GetCertificate: s.identity.GetCertificate,
		NextProtos:     []string{"h2", "http/1.1"},
	})
	s.endpoints = append(s.endpoints, e)
	return nil
}

// serve serves until the server is shut down.
func (e *endpoint) serve() error { return graceful.Served(e.server.ServeTLS(e.listener, "", "")) }

// end shuts down the server.
func (e *endpoint) end() error {
	if e.ending != nil {
		e.ending()
	}
	return e.server.End()
}

// url returns the URL of a path; empty if there is no endpoint.
func (e *endpoint) url(path string) string {
	if e == nil {
		return ""
	}
	return "https://" + e.listener.Addr().String() + path
}

// Package webhook serves webhooks to API servers: over HTTPS, with a certificate that is reloaded
// when it changes, and with a shutdown that loses no request.
//
//	func main() {
//		mux := http.NewServeMux()
//		mux.Handle("/mutate", admission.Mutate(usher.DeciderFunc(annotate), admission.Options{}))
//		webhook.Main(mux)
//	}
//
// It answers probes at /healthz and /readyz itself; every other path is the handler's.
package webhook

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/usher-dev/usher/internal/cert"
	"github.com/usher-dev/usher/internal/clientauth"
	"github.com/usher-dev/usher/internal/graceful"
	"github.com/usher-dev/usher/internal/limit"
)

// Options say where and how to serve. The zero value works for development.
type Options struct {
	// Address is host:port; empty means :8443; with port 0 the system chooses one.
	Address string
	// CertFile and KeyFile are the certificate chain (without the CA) and its key, in PEM. Set both
	// or neither; they are reloaded when they change. Without them, an in-memory CA issues a
	// certificate for localhost: see [Server.CA].
	CertFile, KeyFile string
	// ClientCAFile is the CA of the callers' client certificates, in PEM; empty means that callers
	// need no certificate. ClientNames are the names that a client certificate must have one of, as
	// common name, DNS name or URI; if there are none, any name works. TokenFile contains bearer
	// tokens, one per line, of which callers must send one; empty means that they need none. The
	// files are reloaded when they change. 'usher admission config' writes what API servers need.
	// Probes need neither.
	ClientCAFile string
	ClientNames  []string
	TokenFile    string
	// TLS configures connections, for example which client certificates are requested. Nil means
	// TLS 1.3. A certificate in it, or a function that returns one, replaces the files.
	TLS *tls.Config
	// Ready returns why the server is not ready for requests; nil means that it is ready from the
	// start. It must be safe for concurrent use.
	Ready func() error
	// Grace limits how long requests may take to finish on shutdown; 0 means 10 seconds.
	Grace time.Duration
	// Log is slog.Default if nil.
	Log *slog.Logger
}

// AddFlags adds flags for Address, CertFile and KeyFile, and for the callers' credentials. They
// have the names of those of usher serve.
func (o *Options) AddFlags(flags *flag.FlagSet) {
	flags.StringVar(&o.Address, "address", cmp.Or(o.Address, ":8443"), "host:port to listen on")
	flags.StringVar(&o.CertFile, "tls-cert-file", o.CertFile, "certificate in PEM; read again when it changes")
	flags.StringVar(&o.KeyFile, "tls-private-key-file", o.KeyFile, "private key in PEM of the certificate")
	flags.StringVar(&o.ClientCAFile, "client-ca-file", o.ClientCAFile, "certificates in PEM; callers must have a certificate of one of them")
	flags.Func("client-names", "common names, DNS names and URIs of those who may call, of all whom -client-ca-file vouches for; separated by commas, repeatable", func(names string) error {
		o.ClientNames = append(o.ClientNames, strings.Split(names, ",")...)
		return nil
	})
	flags.StringVar(&o.TokenFile, "token-file", o.TokenFile, "file with bearer tokens, one a line; callers must send one of them")
}

// Main is the main function of a program that only serves a webhook. It parses the command line,
// which has the flags of [Options.AddFlags], serves until a signal ends the program, and exits with
// status 1 on error.
func Main(handler http.Handler) {
	var o Options
	o.AddFlags(flag.CommandLine)
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// A second signal ends the process at once.
	context.AfterFunc(ctx, stop)
	if err := Serve(ctx, handler, o); err != nil {
		slog.Error("webhook ends", "error", err)
		os.Exit(1)
	}
}

// Serve serves until ctx is done, and then finishes the requests that it has. A certificate and a
// key that do not match may be in the middle of an update: Serve retries for ten seconds before it
// fails.
func Serve(ctx context.Context, handler http.Handler, o Options) error {
	s, err := newServer(handler, o, func(certFile, keyFile, caFile string, log *slog.Logger) (*cert.Serving, error) {
		return cert.AwaitFiles(ctx, certFile, keyFile, caFile, log)
	})
	if err != nil {
		return err
	}
	return s.Run(ctx)
}

// A Server serves webhooks. Use [New], which opens its port, and then [Server.Run].
type Server struct {
	server   *graceful.Server
	listener net.Listener
	// certificate is nil if Options.TLS has one.
	certificate *cert.Serving
	callers     *clientauth.Authenticator
	ready       func() error
	log         *slog.Logger
}

// A loader loads a certificate from files.
type loader func(certFile, keyFile, caFile string, log *slog.Logger) (*cert.Serving, error)

// New loads the certificate and opens the port.
func New(handler http.Handler, o Options) (*Server, error) { return newServer(handler, o, cert.Files) }

func newServer(handler http.Handler, o Options, load loader) (*Server, error) {
	s := &Server{ready: o.Ready, log: o.Log}
	if s.log == nil {
		s.log = slog.Default()
	}
	s.server = graceful.New(cmp.Or(o.Grace, 10*time.Second), s.log)
	var err error
	if s.callers, err = known(o, s.log); err != nil {
		return nil, err
	}
	s.callers.CountFailedHandshakes(s.server.Server)
	limits := limit.New(limit.Options{Provable: s.callers != nil, Log: s.log})
	limited := limits.Handler(handler)
	if s.callers != nil {
		limited = limits.Proven(handler)
	}
	s.server.Handler = s.probes(s.callers.Require(s.server.Count(limited)))
	if err := s.secure(o, load); err != nil {
		return nil, err
	}
	if s.listener, err = net.Listen("tcp", cmp.Or(o.Address, ":8443")); err != nil {
		return nil, fmt.Errorf("open webhook port: %w", err)
	}
	return s, nil
}

// known are the callers that may call the handler.
func known(o Options, log *slog.Logger) (*clientauth.Authenticator, error) {
	switch {
	case len(o.ClientNames) > 0 && o.ClientCAFile == "":
		return nil, errors.New("load client CA: ClientNames need ClientCAFile: names can be believed only if somebody vouches for them")
	case o.ClientCAFile != "" && o.TLS != nil && o.TLS.GetConfigForClient != nil:
		return nil, errors.New("load client CA: ClientCAFile and TLS.GetConfigForClient contradict each other")
	}
	return clientauth.New(clientauth.Options{CAFile: o.ClientCAFile, Names: o.ClientNames, TokenFile: o.TokenFile, Log: log})
}

// secure configures connections.
func (s *Server) secure(o Options, load loader) error {
	config := &tls.Config{MinVersion: tls.VersionTLS13}
	if o.TLS != nil {
		config = o.TLS.Clone()
	}
	if len(config.NextProtos) == 0 {
		config.NextProtos = []string{"h2", "http/1.1"}
	}
	if err := s.certify(config, o, load); err != nil {
		return err
	}
	s.server.TLSConfig = s.callers.ConfigureTLS(config)
	return nil
}

// certify adds a certificate to a configuration without one.
func (s *Server) certify(config *tls.Config, o Options, load loader) error {
	if len(config.Certificates) > 0 || config.GetCertificate != nil || config.GetConfigForClient != nil {
		return nil
	}
	var err error
	switch {
	case (o.CertFile == "") != (o.KeyFile == ""):
		return fmt.Errorf("load certificate: CertFile and KeyFile come together, %q and %q do not", o.CertFile, o.KeyFile)
	case o.CertFile != "":
		s.certificate, err = load(o.CertFile, o.KeyFile, "", s.log)
	default:
		s.log.Warn("no certificate is configured: one for localhost was made, which no API server trusts", "do", "make one with usher certs")
		s.certificate, err = cert.SelfSigned(cert.Options{Log: s.log})
	}
	if err != nil {
		return err
	}
	config.GetCertificate = s.certificate.GetCertificate
	return nil
}

// URL is the address of the webhooks on this machine.
func (s *Server) URL() string {
	address := s.listener.Addr().(*net.TCPAddr)
	host := address.IP.String()
	if address.IP.IsUnspecified() {
		host = "localhost"
	}
	return "https://" + net.JoinHostPort(host, strconv.Itoa(address.Port))
}

// CA returns the CA of the server's own certificate, in PEM, or nil if it has none.
func (s *Server) CA() []byte {
	if s.certificate == nil {
		return nil
	}
	return s.certificate.CA()
}

// Run serves until ctx is done, and then shuts down: /readyz fails, requests in flight are
// finished, connections are closed. It returns nil if all requests finished within the grace
// period. Call it once.
func (s *Server) Run(ctx context.Context) error {
	// Serving outlives ctx by the grace period.
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	group, running := errgroup.WithContext(running)
	if s.certificate != nil {
		group.Go(func() error { return s.certificate.Run(running) })
	}
	group.Go(func() error { return s.callers.Run(running) })
	group.Go(func() error { return graceful.Served(s.server.ServeTLS(s.listener, "", "")) })
	group.Go(func() error {
		defer stop()
		select {
		case <-ctx.Done():
		case <-running.Done():
		}
		return s.server.End()
	})
	s.log.Info("serving", "url", s.URL())
	if err := group.Wait(); err != nil {
		return err
	}
	s.log.Info("server ended")
	return nil
}

// probes responds to probes, and passes other requests to next.
func (s *Server) probes(next http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, "ok") })
	mux.HandleFunc("/readyz", s.answerReady)
	mux.Handle("/", next)
	return mux
}

func (s *Server) answerReady(w http.ResponseWriter, _ *http.Request) {
	if s.server.Ending() {
		answer(w, http.StatusServiceUnavailable, "not ready: shutting down")
		return
	}
	if s.ready != nil {
		if err := s.ready(); err != nil {
			answer(w, http.StatusServiceUnavailable, "not ready: "+err.Error())
			return
		}
	}
	answer(w, http.StatusOK, "ok")
}

// answer writes a short text, without a newline: some clients compare it.
func answer(w http.ResponseWriter, code int, words string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(code)
	_, _ = io.WriteString(w, words)
}

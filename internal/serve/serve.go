// Package serve assembles the webhook server: policies from files, kept current, behind
// the admission door over HTTPS, with metrics, health and an orderly end. Everything that
// it needs is in a [Config]; it reads no flags and no environment.
package serve

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/door/admission"
	"github.com/usher-dev/usher/engine"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/fact/cached"
	facthttp "github.com/usher-dev/usher/fact/http"
	"github.com/usher-dev/usher/fact/object"
	"github.com/usher-dev/usher/live"
	"github.com/usher-dev/usher/observe/decisionlog"
	"github.com/usher-dev/usher/observe/metrics"
	"github.com/usher-dev/usher/source/dir"
)

// A Server is a webhook server. Use [New], which opens its ports, and then [Server.Run].
type Server struct {
	config  Config
	live    *live.Live
	metrics *metrics.Metrics
	drain   *drain

	webhooks, metering *http.Server
	// listener and meterListener are open from New on; the latter may be nil.
	listener, meterListener net.Listener
	identity                *identity
}

// New prepares a server and opens its ports. Whatever is wrong with the configuration
// comes back as an error.
func New(c Config) (*Server, error) {
	for _, path := range c.Policies {
		if _, err := os.Stat(path); err != nil {
			return nil, fmt.Errorf("load policies: %w", err)
		}
	}
	s := &Server{config: c.withDefaults(), drain: newDrain(), metrics: metrics.New(nil)}
	facts, err := s.facts()
	if err != nil {
		return nil, err
	}
	s.live = live.New(live.Options{
		Facts:    facts,
		Engine:   engine.Options{FailurePolicy: c.FailurePolicy, RuleTimeout: c.RuleTimeout},
		Log:      s.config.Log,
		OnUpdate: s.count,
	})
	if s.identity, err = newIdentity(s.config); err != nil {
		return nil, err
	}
	if err := s.listen(); err != nil {
		s.close()
		return nil, err
	}
	s.webhooks = s.server(s.mux())
	s.webhooks.TLSConfig = &tls.Config{
		MinVersion:     s.config.TLSMinVersion,
		GetCertificate: s.identity.GetCertificate,
		NextProtos:     []string{"h2", "http/1.1"},
	}
	metering := http.NewServeMux()
	metering.Handle("GET /metrics", s.metrics.Handler())
	s.metering = s.server(metering)
	return s, nil
}

// facts is where rules get what their requests do not carry: objects from files, HTTP
// answers from the network, kept for a while.
func (s *Server) facts() (fact.Resolver, error) {
	trees, err := object.Load(s.config.Facts...)
	if err != nil {
		return nil, fmt.Errorf("load facts: %w", err)
	}
	remote := facthttp.New(facthttp.Options{AllowLocal: s.config.AllowLocalFacts})
	kept := cached.New(remote, s.config.FactTTL)
	return s.metrics.FactResolver(fact.Route(object.FromTrees(trees), kept)), nil
}

// count shows in the metrics what is in force.
func (s *Server) count(status live.Status) {
	snapshot := metrics.Snapshot{
		Generation: status.Generation,
		Since:      status.Since,
		Policies:   status.Policies,
		Rules:      status.Rules,
		Problems:   map[string]int{},
	}
	for _, r := range s.live.Rules() {
		snapshot.InForce = append(snapshot.InForce, r.Policy)
	}
	for _, p := range status.Problems {
		snapshot.Problems[string(p.Severity)]++
		if p.Policy == (usher.PolicyRef{}) {
			snapshot.SourceErrors++
		}
	}
	s.metrics.Snapshot(snapshot)
}

func (s *Server) listen() error {
	address := net.JoinHostPort(s.config.BindAddress, strconv.Itoa(s.config.Port))
	var err error
	if s.listener, err = net.Listen("tcp", address); err != nil {
		return fmt.Errorf("open webhook port: %w", err)
	}
	if s.config.MetricsAddress == "" || s.config.MetricsAddress == "0" {
		return nil
	}
	if s.meterListener, err = net.Listen("tcp", s.config.MetricsAddress); err != nil {
		return fmt.Errorf("open metrics port: %w", err)
	}
	return nil
}

func (s *Server) close() {
	for _, l := range []net.Listener{s.listener, s.meterListener} {
		if l != nil {
			_ = l.Close()
		}
	}
	s.identity.close()
}

func (s *Server) server(handler http.Handler) *http.Server {
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       time.Minute,
		WriteTimeout:      2 * time.Minute,
		IdleTimeout:       2 * time.Minute,
		ErrorLog:          slog.NewLogLogger(s.config.Log.With("from", "net/http").Handler(), slog.LevelWarn),
	}
}

func (s *Server) mux() http.Handler {
	options := admission.Options{MaxBody: s.config.MaxBody, Timeout: s.config.RequestTimeout, Log: s.config.Log}
	decider := s.metrics.Wrap(decisionlog.Wrap(s.live, s.config.Log), "admission")
	mux := http.NewServeMux()
	mux.Handle("/"+string(usher.Mutate), s.drain.count(admission.Mutate(decider, options)))
	mux.Handle("/"+string(usher.Validate), s.drain.count(admission.Validate(decider, options)))
	mux.HandleFunc("GET /healthz", health)
	mux.HandleFunc("GET /readyz", s.ready)
	return mux
}

// URL is where the webhooks are.
func (s *Server) URL() string { return "https://" + s.listener.Addr().String() }

// MetricsURL is where the metrics are, empty if they are nowhere.
func (s *Server) MetricsURL() string {
	if s.meterListener == nil {
		return ""
	}
	return "http://" + s.meterListener.Addr().String() + "/metrics"
}

// CAFile is a file with the certificates to trust, in PEM; empty if the server was given
// its certificate, and whoever made that knows.
func (s *Server) CAFile() string { return s.identity.caFile }

// Run serves until ctx is done, and then ends in order: /readyz fails, requests in
// flight are finished, connections closed. It returns nil if all of them finished within
// the grace period. Call it once.
func (s *Server) Run(ctx context.Context) error {
	defer s.close()
	s.introduce()
	// What serves outlives ctx: requests in flight still need policies.
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	group, running := errgroup.WithContext(running)
	group.Go(func() error { return s.live.Run(running, dir.New(s.config.Policies...)) })
	group.Go(func() error { return s.identity.Run(running) })
	group.Go(func() error { return served(s.webhooks.ServeTLS(s.listener, "", "")) })
	if s.meterListener != nil {
		group.Go(func() error { return served(s.metering.Serve(s.meterListener)) })
	}
	group.Go(func() error {
		defer stop()
		select {
		case <-ctx.Done():
		case <-running.Done():
		}
		return s.shutdown()
	})
	if err := group.Wait(); err != nil {
		return err
	}
	s.config.Log.Info("server ended")
	return nil
}

func served(err error) error {
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("serve: %w", err)
}

// shutdown ends the servers. The port stays open at first: whoever has not noticed yet
// that the server is not ready any more still gets an answer, on a connection that is
// then closed.
func (s *Server) shutdown() error {
	ctx, cancel := context.WithTimeout(context.Background(), s.config.ShutdownGrace)
	defer cancel()
	s.config.Log.Info("shutting down", "grace", s.config.ShutdownGrace)
	s.webhooks.SetKeepAlivesEnabled(false)
	select {
	case <-s.drain.begin():
	case <-time.After(s.config.ShutdownGrace / 2):
	}
	err := s.webhooks.Shutdown(ctx)
	if err != nil {
		err = fmt.Errorf("shut down: requests in flight did not finish within %s: %w", s.config.ShutdownGrace, err)
		_ = s.webhooks.Close()
	}
	_ = s.metering.Close()
	return err
}

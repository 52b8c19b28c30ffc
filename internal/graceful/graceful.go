// Package graceful is how our HTTP servers run: callers have bounded time, and a server
// that ends finishes the requests that it has, and those that are on their way.
package graceful

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"
)

// HTTP returns a server with bounds on how long callers may take. What goes wrong with
// connections is logged.
func HTTP(handler http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       time.Minute,
		WriteTimeout:      2 * time.Minute,
		IdleTimeout:       2 * time.Minute,
		ErrorLog:          slog.NewLogLogger(log.With("from", "net/http").Handler(), slog.LevelWarn),
	}
}

// Served is what the end of a server means: nothing if it was asked to end.
func Served(err error) error {
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("serve: %w", err)
}

// A Server is a server that ends in order. Its Handler, and its TLSConfig if it has one,
// are set before it serves.
type Server struct {
	*http.Server

	grace time.Duration
	log   *slog.Logger
	drain drain
}

// New returns a server whose requests have the time of grace to finish when it ends.
func New(grace time.Duration, log *slog.Logger) *Server {
	return &Server{Server: HTTP(nil, log), grace: grace, log: log}
}

// Count makes the end of the server wait until there are no requests to next any more.
// Probes are not worth waiting for: they never stop.
func (s *Server) Count(next http.Handler) http.Handler { return s.drain.count(next) }

// Ending reports whether the server is about to end, and wants no more requests.
func (s *Server) Ending() bool { return s.drain.begun() }

// End ends the server. The port stays open at first: whoever has not noticed yet that the
// server is not ready any more still gets an answer, on a connection that is then closed.
// An error tells that requests did not finish in time.
func (s *Server) End() error {
	ctx, cancel := context.WithTimeout(context.Background(), s.grace)
	defer cancel()
	s.log.Info("shutting down", "grace", s.grace)
	s.drain.begin()
	quiet, stop := context.WithTimeout(ctx, s.grace/2)
	defer stop()
	s.drain.quiet(quiet, time.Second)
	if err := s.Shutdown(ctx); err != nil {
		_ = s.Close()
		return fmt.Errorf("shut down: requests in flight did not finish within %s: %w", s.grace, err)
	}
	return nil
}

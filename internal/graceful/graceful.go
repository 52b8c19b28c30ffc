// Package graceful is how our HTTP servers run: callers have bounded time, and a server
// that ends finishes the requests that it has, and those that are on their way.
package graceful

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/usher-dev/usher/internal/limit"
)

// Limits of a connection before the caller is known. Go's defaults are a hundred times as high, and
// some of that memory is allocated when a header announces it.
const (
	// maxHeader is the size of a request's head; HTTP/1 adds 4 KiB.
	maxHeader = 8 << 10
	// maxStreams limits concurrent requests on an HTTP/2 connection, maxFrame the size of a read,
	// and maxUnread and maxStreamUnread what is buffered before a handler reads it.
	maxStreams      = 100
	maxFrame        = 16 << 10
	maxUnread       = 256 << 10
	maxStreamUnread = 64 << 10
)

// HTTP returns a server with limits on the time and the resources of connections. It logs
// connection errors.
func HTTP(handler http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:        handler,
		MaxHeaderBytes: maxHeader,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: maxStreams, MaxReadFrameSize: maxFrame,
			MaxReceiveBufferPerConnection: maxUnread, MaxReceiveBufferPerStream: maxStreamUnread,
			WriteByteTimeout: 10 * time.Second,
		},
		// It is the time for the TLS handshake, too.
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       time.Minute,
		WriteTimeout:      2 * time.Minute,
		IdleTimeout:       2 * time.Minute,
		ErrorLog:          errorLog(log),
	}
}

// errorLog logs what goes wrong with connections, some of it each second: others choose how
// many there are.
func errorLog(to *slog.Logger) *log.Logger {
	logger := slog.NewLogLogger(to.With("from", "net/http").Handler(), slog.LevelWarn)
	return log.New(&sometimes{next: logger.Writer(), often: rate.NewLimiter(rate.Every(time.Second), 10)}, "", 0)
}

// sometimes drops lines that are too many.
type sometimes struct {
	next    io.Writer
	often   *rate.Limiter
	dropped atomic.Int64
}

// Write implements [io.Writer]. It receives one line at a time.
func (s *sometimes) Write(line []byte) (int, error) {
	if !s.often.Allow() {
		s.dropped.Add(1)
		return len(line), nil
	}
	if dropped := s.dropped.Swap(0); dropped > 0 {
		line = fmt.Appendf(nil, "%s (%d more messages were dropped)", bytes.TrimSpace(line), dropped)
	}
	_, err := s.next.Write(line)
	return len(line), err
}

// Served turns the end of a server into an error: nil if it was asked to end.
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
	conns limit.Conns
}

// New returns a server whose requests have the time of grace to finish on shutdown.
func New(grace time.Duration, log *slog.Logger) *Server {
	return &Server{Server: HTTP(nil, log), grace: grace, log: log}
}

// ServeTLS serves the connections of l, as many as [limit.Conns] allows.
func (s *Server) ServeTLS(l net.Listener, certFile, keyFile string) error {
	return s.Server.ServeTLS(s.conns.Guard(s.Server, l), certFile, keyFile)
}

// Connections returns the connections that are bounded.
func (s *Server) Connections() *limit.Conns { return &s.conns }

// Count makes shutdown wait for the requests to next. Probes need not be counted: they never stop.
func (s *Server) Count(next http.Handler) http.Handler { return s.drain.count(next) }

// Ending reports whether the server is shutting down.
func (s *Server) Ending() bool { return s.drain.begun() }

// End shuts down the server. The port stays open at first: clients that have not noticed yet still
// get a response, on a connection that is then closed. The error reports that requests did not
// finish in time.
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

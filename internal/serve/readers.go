package serve

import (
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"

	"github.com/usher-dev/usher/internal/delegated"
)

// metricsPath is where metrics are, and what callers need the right to get to read those with names.
const metricsPath = "/metrics"

// newReaders returns what lets those callers of the webhook port through who may read names of
// policies, namespaces and other objects; nil if nobody knows who may.
func (s *Server) newReaders() (*delegated.Guard, error) {
	if s.cluster == nil || s.cluster.Clients.Readers == nil {
		return nil, nil //nolint:nilnil // Nobody is let through.
	}
	readers, err := delegated.NewGuard(delegated.Options{
		Client: s.cluster.Clients.Readers, Refused: refused(s.metrics, "names", delegated.Reasons()), Log: s.config.Log,
	})
	if err != nil {
		return nil, fmt.Errorf("guard names: %w", err)
	}
	return readers, nil
}

// isConfined reports whether only programs on this machine reach a listener: they may read names.
func (s *Server) isConfined(l net.Listener) bool {
	if l == nil || s.config.Listen.exposed {
		return false
	}
	address, ok := l.Addr().(*net.TCPAddr)
	return ok && address.IP.IsLoopback()
}

// meteringMux serves metrics at the port for them, which knows no callers: without names, if others
// reach it.
func (s *Server) meteringMux() http.Handler {
	mux := http.NewServeMux()
	shown := s.metrics.Nameless()
	if s.isConfined(s.meterListener) {
		shown = s.metrics.Handler()
	}
	mux.Handle("GET "+metricsPath, shown)
	if s.config.Listen.Profile {
		mux.HandleFunc("/debug/pprof/", pprof.Index)
		mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
		mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	}
	return mux
}

package serve

import (
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"

	"github.com/usher-dev/usher/internal/delegated"
	"github.com/usher-dev/usher/observe/metrics"
)

// metricsPath is where metrics are, and what callers need the right to get to read those with names.
const metricsPath = "/metrics"

// newReaders returns what lets those callers of the webhook port through who may read names of
// policies, namespaces and other objects; nil if nobody knows who may.
func newReaders(c *Config, m *metrics.Metrics) (*delegated.Guard, error) {
	if c.Cluster == nil || c.Cluster.Clients.Readers == nil {
		return nil, nil //nolint:nilnil // Nobody is let through.
	}
	readers, err := delegated.NewGuard(delegated.Options{
		Client: c.Cluster.Clients.Readers, Refused: refused(m, "names", delegated.Reasons()), Log: c.Log,
	})
	if err != nil {
		return nil, fmt.Errorf("guard names: %w", err)
	}
	return readers, nil
}

// confined reports whether only programs on this machine reach a listener: they may read names.
func (l *Listening) confined(at net.Listener) bool {
	if at == nil || l.exposed {
		return false
	}
	address, ok := at.Addr().(*net.TCPAddr)
	return ok && address.IP.IsLoopback()
}

// meteringMux serves metrics at the port for them, which knows no callers: without names, if others
// reach it.
func (s *Server) meteringMux() http.Handler {
	mux := http.NewServeMux()
	shown := s.metrics.Nameless()
	if s.config.Listen.confined(s.meterListener) {
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

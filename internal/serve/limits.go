package serve

import (
	"github.com/usher-dev/usher/internal/graceful"
	"github.com/usher-dev/usher/observe/metrics"
)

// limitState returns how much of the limits requests use.
func (s *Server) limitState() metrics.LimitState {
	use := s.limits.Use()
	state := metrics.LimitState{
		Bytes: use.Bytes, MaxBytes: use.MaxBytes, InFlight: use.Slots, Waiting: use.Waiting,
		Connections: map[string]metrics.ConnectionState{},
	}
	add := func(name string, server *graceful.Server) {
		pending, settled, closed := server.Connections().Open()
		state.Connections[name] = metrics.ConnectionState{Pending: pending, Settled: settled, Closed: closed}
	}
	add("admission", s.webhooks)
	if s.authorizer != nil {
		add("authorization", s.authorizer.server)
	}
	if s.api != nil {
		add("api", s.api.server)
	}
	return state
}

package serve

import (
	"github.com/usher-dev/usher/observe/metrics"
)

// limitState returns how much of the limits requests use.
func (s *Server) limitState() metrics.LimitState {
	use := s.limits.Use()
	state := metrics.LimitState{
		Bytes: use.Bytes, MaxBytes: use.MaxBytes, InFlight: use.Slots, Waiting: use.Waiting,
		Connections: map[string]metrics.ConnectionState{},
	}
	for _, e := range s.endpoints {
		pending, settled, closed := e.server.Connections().Open()
		state.Connections[e.name] = metrics.ConnectionState{Pending: pending, Settled: settled, Closed: closed}
	}
	return state
}

package metrics

// A LimitState is what requests take of the limits of a server.
type LimitState struct {
	// Bytes of MaxBytes are taken by reviews, of all doors together.
	Bytes, MaxBytes int64
	// InFlight is how many admission requests are decided, and Waiting how many requests wait
	// for memory or to be decided.
	InFlight int64
	Waiting  int
	// Connections are those of each server without an authenticated caller.
	Connections map[string]ConnectionState
}

// A ConnectionState is the state of the connections of unauthenticated callers.
type ConnectionState struct {
	// Pending is how many have not finished a request, Settled how many have.
	Pending, Settled int
	// Closed is how many were closed because there were too many.
	Closed int64
}

// Limits adds metrics about the use of limits to m. The function is called whenever metrics are
// read.
func (m *Metrics) Limits(state func() LimitState) {
	m.limits.show(func() *LimitState { return new(state()) })
}

func limitRows() []row[LimitState] {
	return []row[LimitState]{
		{"request_memory_bytes", "Memory for reading and decoding the current reviews.", nil, one(func(s *LimitState) int64 { return s.Bytes })},
		{"request_memory_limit_bytes", "Limit of the memory for reviews: a quarter of GOMEMLIMIT.", nil, one(func(s *LimitState) int64 { return s.MaxBytes })},
		{"requests_in_flight", "Admission requests that are being decided.", nil, one(func(s *LimitState) int64 { return s.InFlight })},
		{"requests_waiting", "Requests that wait for memory, or to be decided.", nil, one(func(s *LimitState) int { return s.Waiting })},
		{"unproven_connections", "Connections of unauthenticated callers, by server and state: pending (no complete request yet) or settled.", []string{"server", "state"}, func(s *LimitState, send sender) {
			for server, c := range s.Connections {
				send(float64(c.Pending), server, "pending")
				send(float64(c.Settled), server, "settled")
			}
		}},
		{"closed_connections_total", "Connections of unauthenticated callers that were closed because there were too many.", []string{"server"}, func(s *LimitState, send sender) {
			for server, c := range s.Connections {
				send(float64(c.Closed), server)
			}
		}},
	}
}

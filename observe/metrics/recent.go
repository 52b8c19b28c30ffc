package metrics

// Recent adds metrics about those who follow the last decisions to m: how many there are, and how
// many decisions they have lost. The function is called whenever metrics are read.
func (m *Metrics) Recent(state func() (subscribers int, lost uint64)) {
	m.recent.show(func() *recentState {
		var s recentState
		s.subscribers, s.lost = state()
		return &s
	})
}

type recentState struct {
	subscribers int
	lost        uint64
}

func recentRows() []row[recentState] {
	return []row[recentState]{
		{"decisions_recent_subscribers", "Clients that follow the last decisions, as usher watch does.", nil, one(func(s *recentState) int { return s.subscribers })},
		{"decisions_recent_lost_total", "Decisions that were overwritten before clients that follow them had read them, summed over clients.", nil, one(func(s *recentState) uint64 { return s.lost })},
	}
}

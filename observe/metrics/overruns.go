package metrics

// An OverrunState is how many evaluations have gone on after their time.
type OverrunState struct {
	// Total is since the start, Running now.
	Total   uint64
	Running int
}

// Overruns adds metrics about evaluations that go on after their time to m. The function is called
// whenever metrics are read.
func (m *Metrics) Overruns(state func() OverrunState) {
	m.overruns.show(func() *OverrunState { return new(state()) })
}

func overrunRows() []row[OverrunState] {
	return []row[OverrunState]{
		{"overruns_total", "Evaluations of policies that went on for more than a second after their time.", nil, one(func(s *OverrunState) uint64 { return s.Total })},
		{"overruns_running", "Evaluations of policies that go on after their time and do not end.", nil, one(func(s *OverrunState) int { return s.Running })},
	}
}

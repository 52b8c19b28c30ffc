package metrics

import "time"

// A WorkerState is what worker processes do, and have done since the start.
type WorkerState struct {
	// Running is the number of processes by priority, Ended the number of ended ones by reason.
	Running, Ended map[string]int
	// LowTenants is how many tenants have the low priority.
	LowTenants int
	// Waiting is the number of requests that wait for a process; Waited is the total wait time.
	Waiting int
	Waited  time.Duration
	// Answered requests got an answer; Refused ones none, since too many of their tenant waited.
	Answered, Refused int
	// Stopped is the number of policies whose compilation was stopped, by reason.
	Stopped map[string]int
}

// Workers adds metrics about worker processes to m. The function is called whenever
// metrics are read.
func (m *Metrics) Workers(state func() WorkerState) {
	m.workers.show(func() *WorkerState { return new(state()) })
}

func workerRows() []row[WorkerState] {
	return []row[WorkerState]{
		{"cue_workers", "Worker processes, which evaluate CUE and compile policies, by priority: normal, or low for requests that take long and for policies that are compiled.", []string{"priority"}, by(func(s *WorkerState) map[string]int { return s.Running })},
		{"cue_slow_tenants", "Namespaces and users whose requests to worker processes have low priority because some took long.", nil, one(func(s *WorkerState) int { return s.LowTenants })},
		{"cue_waiting", "Requests that wait for a worker process.", nil, one(func(s *WorkerState) int { return s.Waiting })},
		{"cue_wait_seconds_total", "Total time that requests have waited for a worker process.", nil, one(func(s *WorkerState) float64 { return s.Waited.Seconds() })},
		{"cue_evaluations_total", "Requests to worker processes, by result: answered, failed (its process was ended), or refused (too many of the tenant waited).", []string{"result"}, by(func(s *WorkerState) map[string]int {
			return map[string]int{"answered": s.Answered, "failed": s.Ended["timeout"] + s.Ended["memory"] + s.Ended["crash"], "refused": s.Refused}
		})},
		{"cue_workers_ended_total", "Worker processes that were ended, by reason: timeout, memory, crash, preempted (others waited) or recycled (it used much memory).", []string{"reason"}, by(func(s *WorkerState) map[string]int { return s.Ended })},
		{"compiles_stopped_total", "Policies whose compilation was stopped, by reason: timeout, memory or crash.", []string{"reason"}, by(func(s *WorkerState) map[string]int { return s.Stopped })},
	}
}

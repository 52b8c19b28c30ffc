package metrics

// A ReportsState is the state of the reports that a replica writes about what it audits.
type ReportsState struct {
	// Writable is false while none can be written.
	Writable bool
	// Reports and Results are how many there are, and Omitted how many results are in no report.
	Reports, Results, Omitted int
	// Pending and Blocked count namespaces: those with changes to be written, and those whose reports
	// the API server rejects.
	Pending, Blocked int
	// Written, Deleted and Errors count writes.
	Written, Deleted, Errors uint64
}

// Reports adds metrics about reports to m. The function is called whenever metrics are read, and
// returns nil while this replica writes none.
func (m *Metrics) Reports(state func() *ReportsState) { m.reports.show(state) }

func reportRows() []row[ReportsState] {
	return []row[ReportsState]{
		{"reports_writable", "1 if reports can be written, 0 if not; only on the replica that audits.", nil, one(func(s *ReportsState) float64 { return is(s.Writable) })},
		{"reports", "Reports about audited objects in the cluster.", nil, one(func(s *ReportsState) int { return s.Reports })},
		{"reports_results", "Results in these reports.", nil, one(func(s *ReportsState) int { return s.Results })},
		{"reports_results_omitted", "Results that are in no report because there are more than --report-limit.", nil, one(func(s *ReportsState) int { return s.Omitted })},
		{"reports_pending", "Namespaces whose reports are to be written.", nil, one(func(s *ReportsState) int { return s.Pending })},
		{"reports_blocked", "Namespaces whose reports the API server rejects.", nil, one(func(s *ReportsState) int { return s.Blocked })},
		{"reports_writes_total", "Writes of reports, by result: written, deleted or error.", []string{"result"}, by(func(s *ReportsState) map[string]uint64 {
			return map[string]uint64{"written": s.Written, "deleted": s.Deleted, "error": s.Errors}
		})},
	}
}

package metrics

import "time"

// An AuditState is the state of the audit of a replica that audits.
type AuditState struct {
	// Resources are the resources whose objects are audited, by name, version and group.
	Resources map[string]AuditResource
	// Discovered is whether all kinds of the cluster are known.
	Discovered bool
	// Results counts results by status.
	Results map[string]int
	// Bytes of MaxBytes are taken by what is kept.
	Bytes, MaxBytes int64
	// Evaluations is how many objects have been judged, and CPU the time that it took, since this
	// replica audits.
	Evaluations uint64
	CPU         time.Duration
}

// An AuditResource is the state of the audit of one resource.
type AuditResource struct {
	// Objects is how many there are, and Backlog how many of them are to be judged.
	Objects, Backlog int
	// Staleness is for how long they have not been confirmed to be those of the cluster.
	Staleness time.Duration
	// Readable is false while the objects cannot be read.
	Readable bool
}

// Audit adds metrics about the audit to m. The function is called whenever metrics are read, and
// returns nil while another replica audits.
func (m *Metrics) Audit(state func() *AuditState) { m.audit.show(state) }

// resources has a row send a value of each resource.
func resources(of func(AuditResource) float64) func(*AuditState, sender) {
	return func(s *AuditState, send sender) {
		for name, r := range s.Resources {
			send(of(r), name)
		}
	}
}

func auditRows() []row[AuditState] {
	return []row[AuditState]{
		{"audit_objects", "Objects that are audited, by resource; only on the replica that audits.", []string{"resource"}, resources(func(r AuditResource) float64 { return float64(r.Objects) })},
		{"audit_backlog", "Objects that are to be judged, by resource.", []string{"resource"}, resources(func(r AuditResource) float64 { return float64(r.Backlog) })},
		{"audit_readable", "1 if the objects of the resource can be read, 0 if not, although policies are for them.", []string{"resource"}, resources(func(r AuditResource) float64 { return is(r.Readable) })},
		{"audit_staleness_seconds", "Time since the objects of the resource were last confirmed to be those of the cluster; up to two minutes is normal.", []string{"resource"}, resources(func(r AuditResource) float64 { return r.Staleness.Seconds() })},
		{"audit_discovered", "1 if all kinds of the cluster are known, 0 if API groups do not respond, so that their objects may be left out.", nil, one(func(s *AuditState) float64 { return is(s.Discovered) })},
		{"audit_results", "Results of the audit, by status: pass, fail, warn, error or skip.", []string{"status"}, by(func(s *AuditState) map[string]int { return s.Results })},
		{"audit_memory_bytes", "Memory for what the audit keeps of objects and results.", nil, one(func(s *AuditState) int64 { return s.Bytes })},
		{"audit_memory_limit_bytes", "Limit of the memory for the audit: --audit-memory.", nil, one(func(s *AuditState) int64 { return s.MaxBytes })},
		{"audit_evaluations_total", "Objects that were judged, again whenever policies or facts change.", nil, one(func(s *AuditState) uint64 { return s.Evaluations })},
		{"audit_cpu_seconds_total", "Processor time for reading and judging objects.", nil, one(func(s *AuditState) float64 { return s.CPU.Seconds() })},
	}
}

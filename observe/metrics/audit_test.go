package metrics_test

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/usher-dev/usher/observe/metrics"
)

func TestAudit(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	m := metrics.New(registry)
	var state *metrics.AuditState
	m.Audit(func() *metrics.AuditState { return state })
	if n, err := testutil.GatherAndCount(registry, "usher_audit_objects", "usher_audit_memory_bytes"); err != nil || n != 0 {
		t.Errorf("another replica audits: %d series, %v", n, err)
	}
	state = &metrics.AuditState{
		Resources: map[string]metrics.AuditResource{
			"pods.v1":    {Objects: 300, Backlog: 20, Staleness: time.Minute, Readable: true},
			"secrets.v1": {Staleness: time.Hour},
		},
		Discovered: true, Results: map[string]int{"pass": 200, "fail": 80},
		Bytes: 1000, MaxBytes: 2000, Evaluations: 280, CPU: 70 * time.Millisecond,
	}
	compare(t, registry, `
# HELP usher_audit_backlog Objects that are to be judged, by resource.
# TYPE usher_audit_backlog gauge
usher_audit_backlog{resource="pods.v1"} 20
usher_audit_backlog{resource="secrets.v1"} 0
# HELP usher_audit_cpu_seconds_total Processor time for reading and judging objects.
# TYPE usher_audit_cpu_seconds_total counter
usher_audit_cpu_seconds_total 0.07
# HELP usher_audit_discovered 1 if all kinds of the cluster are known, 0 if API groups do not respond, so that their objects may be left out.
# TYPE usher_audit_discovered gauge
usher_audit_discovered 1
# HELP usher_audit_evaluations_total Objects that were judged, again whenever policies or facts change.
# TYPE usher_audit_evaluations_total counter
usher_audit_evaluations_total 280
# HELP usher_audit_memory_bytes Memory for what the audit keeps of objects and results.
# TYPE usher_audit_memory_bytes gauge
usher_audit_memory_bytes 1000
# HELP usher_audit_memory_limit_bytes Limit of the memory for the audit: --audit-memory.
# TYPE usher_audit_memory_limit_bytes gauge
usher_audit_memory_limit_bytes 2000
# HELP usher_audit_objects Objects that are audited, by resource; only on the replica that audits.
# TYPE usher_audit_objects gauge
usher_audit_objects{resource="pods.v1"} 300
usher_audit_objects{resource="secrets.v1"} 0
# HELP usher_audit_readable 1 if the objects of the resource can be read, 0 if not, although policies are for them.
# TYPE usher_audit_readable gauge
usher_audit_readable{resource="pods.v1"} 1
usher_audit_readable{resource="secrets.v1"} 0
# HELP usher_audit_results Results of the audit, by status: pass, fail, warn, error or skip.
# TYPE usher_audit_results gauge
usher_audit_results{status="fail"} 80
usher_audit_results{status="pass"} 200
# HELP usher_audit_staleness_seconds Time since the objects of the resource were last confirmed to be those of the cluster; up to two minutes is normal.
# TYPE usher_audit_staleness_seconds gauge
usher_audit_staleness_seconds{resource="pods.v1"} 60
usher_audit_staleness_seconds{resource="secrets.v1"} 3600
`, "usher_audit_backlog", "usher_audit_cpu_seconds_total", "usher_audit_discovered", "usher_audit_evaluations_total", "usher_audit_memory_bytes", "usher_audit_memory_limit_bytes",
		"usher_audit_objects", "usher_audit_readable", "usher_audit_results", "usher_audit_staleness_seconds")
}

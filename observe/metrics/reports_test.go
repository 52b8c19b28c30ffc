package metrics_test

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/usher-dev/usher/observe/metrics"
)

func TestReports(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	m := metrics.New(registry)
	var state *metrics.ReportsState
	m.Reports(func() *metrics.ReportsState { return state })
	if n, err := testutil.GatherAndCount(registry, "usher_reports", "usher_reports_writable", "usher_reports_writes_total"); err != nil || n != 0 {
		t.Errorf("another replica writes reports: %d series, %v", n, err)
	}
	state = &metrics.ReportsState{
		Writable: true, Reports: 12, Results: 340, Omitted: 7, Pending: 2, Blocked: 1, Written: 50, Deleted: 3, Errors: 4,
	}
	compare(t, registry, `
# HELP usher_reports Reports about audited objects in the cluster.
# TYPE usher_reports gauge
usher_reports 12
# HELP usher_reports_blocked Namespaces whose reports the API server rejects.
# TYPE usher_reports_blocked gauge
usher_reports_blocked 1
# HELP usher_reports_pending Namespaces whose reports are to be written.
# TYPE usher_reports_pending gauge
usher_reports_pending 2
# HELP usher_reports_results Results in these reports.
# TYPE usher_reports_results gauge
usher_reports_results 340
# HELP usher_reports_results_omitted Results that are in no report because there are more than --report-limit.
# TYPE usher_reports_results_omitted gauge
usher_reports_results_omitted 7
# HELP usher_reports_writable 1 if reports can be written, 0 if not; only on the replica that audits.
# TYPE usher_reports_writable gauge
usher_reports_writable 1
# HELP usher_reports_writes_total Writes of reports, by result: written, deleted or error.
# TYPE usher_reports_writes_total counter
usher_reports_writes_total{result="deleted"} 3
usher_reports_writes_total{result="error"} 4
usher_reports_writes_total{result="written"} 50
`, "usher_reports", "usher_reports_blocked", "usher_reports_pending", "usher_reports_results", "usher_reports_results_omitted",
		"usher_reports_writable", "usher_reports_writes_total")
}

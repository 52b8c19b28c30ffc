package metrics_test

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/usher-dev/usher/observe/metrics"
)

func TestOverruns(t *testing.T) {
	t.Parallel()
	names := []string{"usher_overruns_total", "usher_overruns_running"}
	registry := prometheus.NewRegistry()
	m := metrics.New(registry)
	compare(t, registry, "", names...)
	m.Overruns(func() metrics.OverrunState { return metrics.OverrunState{Total: 3, Running: 1} })
	compare(t, registry, `
# HELP usher_overruns_running Evaluations of policies that go on after their time and do not end.
# TYPE usher_overruns_running gauge
usher_overruns_running 1
# HELP usher_overruns_total Evaluations of policies that went on for more than a second after their time.
# TYPE usher_overruns_total counter
usher_overruns_total 3
`, names...)
}

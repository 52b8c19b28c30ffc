package metrics_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/observe/metrics"
)

// The decisions of a webhook are counted.
func ExampleMetrics_Wrap() {
	m := metrics.New(prometheus.NewRegistry())
	decider := m.Wrap(usher.DeciderFunc(func(context.Context, *usher.Request) (usher.Decision, error) {
		return usher.Allowed(), nil
	}), "admission")
	if _, err := decider.Decide(context.Background(), &usher.Request{Phase: usher.Validate, Operation: usher.Create}); err != nil {
		fmt.Println(err)
	}

	response := httptest.NewRecorder()
	m.Handler().ServeHTTP(response, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	fmt.Println(strings.Contains(response.Body.String(), "usher_decisions_total"))
	// Output: true
}

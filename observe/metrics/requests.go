package metrics

import (
	"cmp"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Requests returns a handler that responds as next does and counts the requests to an endpoint of
// the authorization webhooks. Decisions do not include requests that were rejected before.
func (m *Metrics) Requests(endpoint string, next http.Handler) http.Handler {
	duration := m.requestDuration.WithLabelValues(endpoint)
	answered := m.requests.WithLabelValues(endpoint, strconv.Itoa(http.StatusOK))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		counted := &counted{ResponseWriter: w, code: http.StatusOK}
		defer func() {
			duration.Observe(time.Since(start).Seconds())
			counter := answered
			if counted.code != http.StatusOK {
				counter = m.requests.With(prometheus.Labels{"endpoint": endpoint, "code": strconv.Itoa(counted.code)})
			}
			counter.Inc()
		}()
		next.ServeHTTP(counted, r)
	})
}

// APIRequest counts a request to the server's own API. A request for an unknown resource has
// neither a resource nor a verb.
func (m *Metrics) APIRequest(resource, verb string, code int) {
	m.apiRequests.WithLabelValues(cmp.Or(resource, "other"), cmp.Or(verb, "other"), strconv.Itoa(code)).Inc()
}

// counted records the status of a response.
type counted struct {
	http.ResponseWriter
	code int
}

func (c *counted) WriteHeader(code int) {
	c.code = code
	c.ResponseWriter.WriteHeader(code)
}

// Unwrap gives http.ResponseController access to the wrapped writer.
func (c *counted) Unwrap() http.ResponseWriter { return c.ResponseWriter }

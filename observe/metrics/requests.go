package metrics

import (
	"cmp"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// requests counts HTTP requests: to the authorization webhooks, and to the server's own API.
type requests struct {
	access   *prometheus.CounterVec
	duration *prometheus.HistogramVec
	api      *prometheus.CounterVec
}

func (r *requests) init(c *catalog) {
	r.access = c.counterVec("access_requests_total",
		"Requests to the authorization webhooks, by HTTP status: 503 means that there is no decision.",
		"endpoint", "code")
	r.duration = c.histogramVec("access_request_duration_seconds",
		"Duration of requests to the authorization webhooks, with reading and writing.",
		"endpoint")
	r.api = c.counterVec("api_requests_total",
		"Requests to the API of the server itself, by resource, verb and HTTP status: 503 means that the API server did not respond.",
		"resource", "verb", "code")
}

// Requests returns a handler that responds as next does and counts the requests to an endpoint of
// the authorization webhooks. Decisions do not include requests that were rejected before.
func (m *Metrics) Requests(endpoint string, next http.Handler) http.Handler {
	duration := m.requests.duration.WithLabelValues(endpoint)
	answered := m.requests.access.WithLabelValues(endpoint, strconv.Itoa(http.StatusOK))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		counted := &counted{ResponseWriter: w, code: http.StatusOK}
		defer func() {
			duration.Observe(time.Since(start).Seconds())
			counter := answered
			if counted.code != http.StatusOK {
				counter = m.requests.access.With(prometheus.Labels{"endpoint": endpoint, "code": strconv.Itoa(counted.code)})
			}
			counter.Inc()
		}()
		next.ServeHTTP(counted, r)
	})
}

// APIRequest counts a request to the server's own API. A request for an unknown resource has
// neither a resource nor a verb.
func (m *Metrics) APIRequest(resource, verb string, code int) {
	m.requests.api.WithLabelValues(cmp.Or(resource, "other"), cmp.Or(verb, "other"), strconv.Itoa(code)).Inc()
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

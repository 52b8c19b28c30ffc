package serve_test

import (
	"encoding/hex"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/usher-dev/usher/internal/observe/spans"
	"github.com/usher-dev/usher/internal/observe/spans/spanstest"
	"github.com/usher-dev/usher/internal/serve"
)

// reference reads a fact that does not exist, so that its rule fails.
const reference = `apiVersion: policy.kcloudlabs.io/v1alpha1
kind: ClusterOverridePolicy
metadata:
  name: reference
spec:
  resourceSelectors:
  - {apiVersion: v1, kind: Pod}
  overrideRules:
  - overriders:
      template:
        type: annotations
        operation: add
        path: zone
        valueRef: {from: k8s, path: /data/zone, k8s: {apiVersion: v1, kind: ConfigMap, namespace: shop, name: site}}
`

// A review has spans down to its facts, in the trace of the caller if that has shown who it is.
func TestSpans(t *testing.T) {
	t.Parallel()
	const trace = "0af7651916cd43dd8448eb211c80319c"
	for _, known := range []bool{true, false} {
		collector, every := spanstest.Start(t), int32(1_000_000)
		policies, tokens := t.TempDir(), filepath.Join(t.TempDir(), "tokens")
		write(t, filepath.Join(policies, "reference.yaml"), reference)
		write(t, tokens, "secret\n")
		config := serve.Config{
			Policies: []string{policies}, Spans: &spans.Config{Endpoint: &collector.Address, SamplingRatePerMillion: &every},
			Authorization: &serve.Authorization{Address: "127.0.0.1:0"},
		}
		if known {
			config.Callers.TokenFile = tokens
		}
		h := start(t, config)
		h.eventually("the server is ready", func() bool { return h.status("/readyz") == http.StatusOK })
		send := func(url, body string) {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			request.Header.Set("Content-Type", "application/json")
			request.Header.Set("Authorization", "Bearer secret")
			request.Header.Set("Traceparent", "00-"+trace+"-b7ad6b7169203331-01")
			if _, response := h.answer(h.client.Do(request)); response == nil || response.StatusCode != http.StatusOK {
				t.Errorf("%s: %v", url, response)
			}
		}
		send(h.server.URL()+"/mutate", string(read(t, reviews+"v1-create-pods.json")))
		send(h.server.AuthorizationURL()+"/authorize", strings.Replace(review, "RESOURCE", "pods", 1))
		h.stop()
		for name, least := range map[string]int{"review": 2, "decide": 2, "rule": 1, "fact": 1} {
			received := collector.Spans(name)
			if len(received) < least {
				t.Errorf("known %v: %d spans %s", known, len(received), name)
			}
			for _, s := range received {
				door := s.Attributes["usher.door"]
				if own := hex.EncodeToString(s.GetTraceId()) != trace; own == (known && door != "authorization") && name != "decide" {
					t.Errorf("known %v: %s %s belongs to the trace %x", known, name, door, s.GetTraceId())
				}
			}
		}
	}
}

package metrics_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/observe/metrics"
)

// Sums over all policies of a kind have no names, and do not fall when a policy is deleted.
func TestNameless(t *testing.T) {
	t.Parallel()
	m := metrics.New(prometheus.NewRegistry())
	shop := usher.PolicyRef{Kind: "OverridePolicy", Namespace: "shop", Name: "a"}
	bank := usher.PolicyRef{Kind: "OverridePolicy", Namespace: "bank", Name: "b"}
	m.Exemptions(func() []metrics.Exemption {
		return []metrics.Exemption{
			{Ref: usher.PolicyRef{Kind: "PolicyExemption", Namespace: "shop", Name: "late"}, Expires: time.Unix(5_000_000_000, 0)},
			{Ref: usher.PolicyRef{Kind: "PolicyExemption", Namespace: "bank", Name: "soon"}, Expires: time.Unix(4_000_000_000, 0)},
		}
	})
	denied := func(policies ...usher.PolicyRef) {
		for _, p := range policies {
			decision := usher.Denied("no")
			decision.Findings = []usher.Finding{{Policy: p, Outcome: usher.Rejected}}
			decide(t, m, usher.Validate, decision, nil)
		}
	}
	expect := func(reason string, want ...string) {
		t.Helper()
		w := httptest.NewRecorder()
		m.Nameless().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
		var got []string
		for line := range strings.Lines(w.Body.String()) {
			if strings.HasPrefix(line, "usher_policy_denials_total") || strings.HasPrefix(line, "usher_exemption_expiry") {
				got = append(got, strings.TrimSpace(line))
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", reason, diff)
		}
	}
	const expires = `usher_exemption_expiry_timestamp_seconds{exemption_kind="PolicyExemption"} 4e+09`
	m.Snapshot(usher.Snapshot{InForce: []usher.PolicyRef{shop, bank, team}})
	denied(shop, shop, bank)
	expect("both are added", expires, `usher_policy_denials_total{policy_kind="ClusterValidatePolicy"} 0`, `usher_policy_denials_total{policy_kind="OverridePolicy"} 3`)
	m.Snapshot(usher.Snapshot{InForce: []usher.PolicyRef{bank}})
	denied(bank)
	expect("one is gone, and a kind", expires, `usher_policy_denials_total{policy_kind="ClusterValidatePolicy"} 0`, `usher_policy_denials_total{policy_kind="OverridePolicy"} 4`)
	m.Snapshot(usher.Snapshot{InForce: []usher.PolicyRef{shop, bank}})
	denied(shop)
	expect("it is back", expires, `usher_policy_denials_total{policy_kind="ClusterValidatePolicy"} 0`, `usher_policy_denials_total{policy_kind="OverridePolicy"} 5`)
}

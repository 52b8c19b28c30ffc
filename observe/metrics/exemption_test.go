package metrics_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/observe/metrics"
)

func TestExemptions(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	m := metrics.New(registry)
	at := time.Unix(4_000_000_000, 0)
	m.Exemptions(func() []metrics.Exemption {
		return []metrics.Exemption{
			{Ref: usher.PolicyRef{Kind: "PolicyExemption", Namespace: "shop", Name: "a"}, Expires: at},
			{Ref: usher.PolicyRef{Kind: "ClusterPolicyExemption", Name: "old"}, Expires: time.Unix(1, 0)},
			{Ref: usher.PolicyRef{Kind: "ClusterPolicyExemption", Name: "unproven"}},
		}
	})
	compare(t, registry, `
# HELP usher_exemption_expiry_timestamp_seconds When a valid policy exemption expires, in seconds since 1970; for the 500 that expire first.
# TYPE usher_exemption_expiry_timestamp_seconds gauge
usher_exemption_expiry_timestamp_seconds{exemption_kind="PolicyExemption",exemption_name="a",exemption_namespace="shop"} 4e+09
# HELP usher_exemptions Policy exemptions, by state: valid, expired, or invalid (not in force for another reason, which its status says).
# TYPE usher_exemptions gauge
usher_exemptions{state="expired"} 1
usher_exemptions{state="invalid"} 1
usher_exemptions{state="valid"} 1
`, "usher_exemptions", "usher_exemption_expiry_timestamp_seconds")
}

// TestExemptionsAreBounded: thousands of exemptions are 500 series, of those that expire first.
func TestExemptionsAreBounded(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	m := metrics.New(registry)
	m.Exemptions(func() []metrics.Exemption {
		var all []metrics.Exemption
		for i := range 3000 {
			all = append(all, metrics.Exemption{Ref: usher.PolicyRef{Kind: "PolicyExemption", Namespace: "shop", Name: fmt.Sprint(i)}, Expires: time.Unix(4_000_000_000-int64(i), 0)})
		}
		return all
	})
	if n, err := testutil.GatherAndCount(registry, "usher_exemption_expiry_timestamp_seconds"); err != nil || n != metrics.MostExemptions {
		t.Errorf("%d series, %v", n, err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == "usher_exemption_expiry_timestamp_seconds" && !strings.Contains(family.String(), `"2999"`) {
			t.Error("the one that expires first has no series")
		}
	}
}

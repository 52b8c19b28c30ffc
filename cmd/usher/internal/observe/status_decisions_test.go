package observe_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/cmd/usher/internal/observe"
	"github.com/usher-dev/usher/internal/observe/recent"
)

// TestStatusNamesPolicies: those that refuse the most of the last requests, and the slowest ones. The tenants of a
// namespace do not keep those of the cluster from being named.
func TestStatusNamesPolicies(t *testing.T) {
	t.Parallel()
	rule := func(namespace, name string, outcome usher.Outcome, ignored bool) recent.Rule {
		kind := "ClusterObjectPolicy"
		if namespace != "" {
			kind = "ObjectPolicy"
		}
		return recent.Rule{Policy: usher.PolicyRef{Kind: kind, Namespace: namespace, Name: name}, Outcome: outcome, Ignored: ignored}
	}
	all := rule("", "deny-all", usher.Rejected, false)
	var decisions []*recent.Decision
	for range 30 {
		decisions = append(decisions, &recent.Decision{Verdict: "deny", Rules: []recent.Rule{all, all}})
	}
	for i := range 9 {
		decisions = append(decisions, &recent.Decision{Verdict: "deny", Rules: []recent.Rule{
			rule("shop", fmt.Sprint("p", i/4), usher.Rejected, false), rule("", "broken", usher.Failed, false),
			rule("", "ignored", usher.Failed, true), rule("", "tried", usher.WouldDeny, false),
		}})
	}
	decisions = append(decisions,
		&recent.Decision{Verdict: "allow", Rules: []recent.Rule{rule("", "warns", usher.Rejected, false)}, Slowest: &recent.SlowestRule{Policy: rule("", "slow", "", false).Policy, TookSeconds: 0.25}},
		&recent.Decision{Verdict: "allow", Slowest: &recent.SlowestRule{Policy: rule("shop", "slower", "", false).Policy, TookSeconds: 1}},
		&recent.Decision{Verdict: "allow", Slowest: &recent.SlowestRule{Policy: rule("", "slow", "", false).Policy, TookSeconds: 0.05}},
	)
	const at, denied, slow = " --server https://127.0.0.1:8445 --ca-file 'my ca.crt'", "usher watch --denied --explain --once --policy ", "usher watch --once --since 15m --slower-than 20ms"
	want := []string{
		"ClusterObjectPolicy deny-all: refused 30 of the last 42 requests: " + denied + "ClusterObjectPolicy/deny-all" + at,
		"ClusterObjectPolicy broken: refused 9 of the last 42 requests: " + denied + "ClusterObjectPolicy/broken" + at,
		"ObjectPolicy shop/p0: refused 4 of the last 42 requests: " + denied + "ObjectPolicy/shop/p0" + at,
		"ClusterObjectPolicy slow: slow: took up to 250ms, and 20ms or more of 2 of the last 42 requests: " + slow + at,
		"ObjectPolicy shop/slower: slow: took up to 1s, and 20ms or more of 1 of the last 42 requests: " + slow + at,
	}
	if diff := cmp.Diff(want, observe.LookAt(decisions)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

package observe_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
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
	took := func(namespace, name string, seconds ...float64) {
		for _, s := range seconds {
			decisions = append(decisions, &recent.Decision{Verdict: "allow", Slowest: &recent.SlowestRule{Policy: rule(namespace, name, "", false).Policy, TookSeconds: s}})
		}
	}
	decisions = append(decisions, &recent.Decision{Verdict: "allow", Rules: []recent.Rule{rule("", "warns", usher.Rejected, false)}})
	took("", "slow", 0.25, 0.05, 0.05, 0.05, 0.05)
	took("shop", "slower", 1, 1, 1, 1, 1)
	took("", "cold", 2, 2, 2, 2)
	const at, denied, slow = " --server https://127.0.0.1:8445 --ca-file 'my ca.crt'", "usher watch --denied --explain --once --policy ", "usher watch --once --since 15m --slower-than 20ms"
	want := []string{
		"ClusterObjectPolicy deny-all: refused 30 of the last 54 requests: " + denied + "ClusterObjectPolicy/deny-all" + at,
		"ClusterObjectPolicy broken: refused 9 of the last 54 requests: " + denied + "ClusterObjectPolicy/broken" + at,
		"ObjectPolicy shop/p0: refused 4 of the last 54 requests: " + denied + "ObjectPolicy/shop/p0 -n shop" + at,
		"ClusterObjectPolicy slow: slow: took up to 250ms, and 20ms or more of 5 of the last 54 requests: " + slow + at,
		"ObjectPolicy shop/slower: slow: took up to 1s, and 20ms or more of 5 of the last 54 requests: " + slow + " -n shop" + at,
	}
	headline, outdated, got := observe.LookAt(decisions)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if headline != "ClusterObjectPolicy deny-all refuses most requests, 30 of the last 54 requests" || outdated != 0 {
		t.Errorf("got %q, and %d outdated decisions", headline, outdated)
	}
}

// TestStatusIsOfPoliciesAsTheyAre: what policies refused that are deleted, or edited since, is not said of them.
func TestStatusIsOfPoliciesAsTheyAre(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	stored := func(name string, created, edited, told time.Time) api.Policy {
		text := fmt.Sprintf(`{"apiVersion":"usher.dev/v1alpha1","kind":"ClusterObjectPolicy","metadata":{"name":%q,"creationTimestamp":%q,"managedFields":[
			{"manager":"kubectl","time":%q},{"manager":"usher","subresource":"status","time":%q}]},"spec":{}}`, name, created.Format(time.RFC3339), edited.Format(time.RFC3339), told.Format(time.RFC3339))
		policy, err := api.Decode([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return policy
	}
	denied := func(phase string, after time.Duration, names ...string) *recent.Decision {
		d := &recent.Decision{Request: recent.Request{Phase: phase}, Verdict: "deny", Time: noon.Add(after)}
		for _, name := range names {
			d.Rules = append(d.Rules, recent.Rule{Policy: usher.PolicyRef{Kind: "ClusterObjectPolicy", Name: name}, Outcome: usher.Rejected})
		}
		return d
	}
	var decisions []*recent.Decision
	for range 5 {
		decisions = append(decisions, &recent.Decision{Request: recent.Request{Phase: "mutate"}, Verdict: "allow", Time: noon}, denied("validate", -time.Minute, "gone", "mended"))
	}
	for range 4 {
		decisions = append(decisions, denied("validate", time.Minute, "old"))
	}
	decisions = append(decisions, denied("validate", time.Minute, "mended"))
	off := func(name string) string {
		return "ClusterObjectPolicy " + name + ": to have it decide nothing while you look at it: kubectl patch clusterobjectpolicy/" + name + ` --type merge -p '{"spec":{"suspend":true}}'`
	}
	var allowed []*recent.Decision
	for range 60 {
		allowed = append(allowed, &recent.Decision{Request: recent.Request{Phase: "validate"}, Verdict: "allow", Time: noon.Add(-time.Minute)})
	}
	for _, test := range []struct {
		reason    string
		decisions []*recent.Decision
		headline  string
		outdated  int
		says      []string
	}{
		{"one deleted, one mended", decisions, "", 5, []string{"ClusterObjectPolicy old: refused 4 of the last 10 requests to validate"}},
		{
			"of the requests that are validated", decisions[7:], "ClusterObjectPolicy old refused 4 of the last 7 requests to validate", 2,
			[]string{"ClusterObjectPolicy old: refused 4 of the last 7 requests to validate", off("old")},
		},
		{
			"since the policy is in force", slices.Concat(allowed, []*recent.Decision{denied("validate", time.Minute, "mended"), denied("validate", time.Minute, "mended"), denied("validate", time.Minute, "mended")}),
			"ClusterObjectPolicy mended refused 3 of the 3 requests to validate since it was written", 0,
			[]string{"ClusterObjectPolicy mended: refused 3 of the 3 requests to validate since it was written", off("mended")},
		},
		{
			"which version an edited one had is not known at first", []*recent.Decision{denied("validate", -time.Second, "mended"), denied("validate", time.Second/2, "mended"), denied("validate", time.Minute, "mended")},
			"", 1, nil,
		},
		{
			"a policy that is new has one version", []*recent.Decision{denied("validate", 0, "new"), denied("validate", time.Second/2, "new"), denied("validate", time.Second/2, "new")},
			"ClusterObjectPolicy new refused 3 of the last 3 requests", 0, []string{"ClusterObjectPolicy new: refused 3 of the last 3 requests", off("new")},
		},
	} {
		headline, outdated, says := observe.LookAt(test.decisions,
			stored("mended", noon.Add(-time.Hour), noon, noon), stored("old", noon.Add(-time.Hour), noon.Add(-time.Hour), noon.Add(time.Hour)), stored("new", noon, noon, noon))
		for i := range says {
			says[i], _, _ = strings.Cut(says[i], ": usher ")
		}
		if headline != test.headline || outdated != test.outdated {
			t.Errorf("%s: got %q, and %d outdated decisions", test.reason, headline, outdated)
		}
		if diff := cmp.Diff(test.says, says); diff != "" {
			t.Errorf("%s: -want +got:\n%s", test.reason, diff)
		}
	}
}

// TestTheLastDecision: a request to authorize has no kind, and may be for all objects.
func TestTheLastDecision(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	for _, row := range []struct {
		request recent.Request
		want    string
	}{
		{recent.Request{Operation: "CREATE", Kind: "Pod", Namespace: "shop", Name: "a"}, "CREATE Pod shop/a"},
		{recent.Request{Operation: "list", Resource: "secrets", Namespace: "shop"}, "list secrets shop/*"},
	} {
		if got, want := observe.LastDecision(&recent.Decision{Request: row.request, Verdict: "deny", Time: at}), "2026-06-01T12:00:00Z: deny "+row.want; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

package live_test

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/internal/engine"
	"github.com/usher-dev/usher/internal/live"
	"github.com/usher-dev/usher/internal/rule"
)

// end is when the exemptions of these tests expire.
var end = time.Date(2030, 1, 31, 12, 0, 0, 0, time.UTC)

// exemption is one of a cluster from a policy.
func exemption(t *testing.T, name, kind, policy string) api.Policy {
	t.Helper()
	p, err := api.Decode(fmt.Appendf(nil, `{
		"apiVersion": "usher.dev/v1alpha1", "kind": "ClusterPolicyExemption", "metadata": {"name": %q, "uid": "u-%s", "generation": 1},
		"spec": {"policyRefs": [{"kind": %q, "name": %q}], "reason": "r", "owner": "o", "expiresAt": %q}
	}`, name, name, kind, policy, end.Format(time.RFC3339)))
	if err != nil {
		t.Fatal(err)
	}
	return worth(p, api.Proven)
}

// A clock is set by tests.
type clock struct{ nanoseconds atomic.Int64 }

func (c *clock) set(at time.Time) { c.nanoseconds.Store(at.UnixNano()) }

func (c *clock) now() time.Time { return time.Unix(0, c.nanoseconds.Load()) }

func TestExemptionsFollowTheirPoliciesAndTheClock(t *testing.T) {
	t.Parallel()
	const changed, unchanged = `[{"op":"add","path":"/metadata/labels/a","value":"b"}]`, `null`
	var c clock
	c.set(end.Add(-time.Hour))
	a := newScript()
	h := startWith(t, live.Options{Engine: engine.Options{Now: c.now}}, a)

	exempt := exemption(t, "x", "ClusterOverridePolicy", "add")
	a.update(set(label("add", "a", "b")))
	h.next()
	h.wantPatch(changed)

	a.update(set(label("add", "a", "b"), exempt))
	if status := h.next(); len(status.Problems) > 0 {
		t.Errorf("problems are %v", status.Problems)
	}
	h.wantPatch(unchanged)
	h.wantPatch(unchanged)
	dry := createPod()
	dry.DryRun = true
	if _, err := h.live.Decide(t.Context(), dry); err != nil {
		t.Fatal(err)
	}
	state := h.live.Exemptions()[0]
	if state.LastUsed.IsZero() {
		t.Error("the exemption was used, and there is no time")
	}
	state.LastUsed = time.Time{}
	want := rule.ExemptionState{Ref: usher.PolicyRef{Kind: "ClusterPolicyExemption", Name: "x"}, UID: "u-x", Generation: 1, Expires: end, Uses: 2}
	if d := cmp.Diff(want, state); d != "" {
		t.Errorf("state (-want +got):\n%s", d)
	}

	// It ends while nothing else happens.
	c.set(end.Add(-time.Millisecond))
	a.update(set(label("add", "a", "b"), label("other", "c", "d"), exempt))
	h.next()
	c.set(end)
	status := h.next()
	if !slices.ContainsFunc(status.Problems, func(p rule.Problem) bool { return strings.Contains(p.What, "it expired at 2030-01-31T12:00:00Z") }) {
		t.Errorf("problems are %v", status.Problems)
	}
	if state := h.live.Exemptions()[0]; len(state.Problems) != 1 || state.Uses != 2 {
		t.Errorf("the state of an expired exemption is %+v", state)
	}
	a.update(set(label("add", "a", "b"), exempt))
	h.next()
	h.wantPatch(changed)

	a.update(set(label("add", "a", "b")))
	h.next()
	if states := h.live.Exemptions(); len(states) > 0 {
		t.Errorf("of exemptions that are gone there is %v", states)
	}
}

func TestExemptionsThatDoNothing(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		reason    string
		exemption func(t *testing.T) api.Policy
		problem   string
	}{
		{"nobody knows whether its writer had the right", func(t *testing.T) api.Policy {
			t.Helper()
			return worth(exemption(t, "x", "ClusterOverridePolicy", "add"), api.Unproven)
		}, "the right to write it is not proven"},
		{"there is no such policy", func(t *testing.T) api.Policy {
			t.Helper()
			return exemption(t, "x", "ClusterOverridePolicy", "ad")
		}, "there is no ClusterOverridePolicy ad"},
		{"there is none of this kind", func(t *testing.T) api.Policy {
			t.Helper()
			return exemption(t, "x", "OverridePolicy", "*")
		}, "there is no OverridePolicy *"},
		{"it does not compile", func(t *testing.T) api.Policy {
			t.Helper()
			return exemption(t, "x", "Pod", "*")
		}, "nothing is exempt from a Pod"},
	} {
		t.Run(row.reason, func(t *testing.T) {
			t.Parallel()
			a := newScript()
			var c clock
			c.set(end.Add(-time.Hour))
			h := startWith(t, live.Options{Engine: engine.Options{Now: c.now}}, a)
			a.update(set(label("add", "a", "b"), row.exemption(t)))
			status := h.next()
			h.wantPatch(`[{"op":"add","path":"/metadata/labels/a","value":"b"}]`)
			says := func(p rule.Problem) bool { return strings.Contains(p.What, row.problem) }
			if !slices.ContainsFunc(status.Problems, says) {
				t.Errorf("problems are %v", status.Problems)
			}
			states := h.live.Exemptions()
			if len(states) != 1 || states[0].Uses != 0 || !slices.ContainsFunc(states[0].Problems, says) {
				t.Errorf("states are %+v", states)
			}
		})
	}
}

package report_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api/kcloudlabs/v1alpha1"
	"github.com/usher-dev/usher/internal/report"
	"github.com/usher-dev/usher/internal/rule"
)

// TestSuspensions: the status of a policy says that it is suspended, and by whom; Events say so when
// it begins and when it ends.
func TestSuspensions(t *testing.T) {
	t.Parallel()
	begin := time.Unix(began, 0)
	const text = "the policy is suspended by jane at noon: it decides nothing"
	warning := []rule.Problem{{Severity: rule.Warning, Field: "spec.suspend", What: text}}
	of := usher.PolicyRef{Kind: "ClusterObjectPolicy", Name: "p"}
	var known v1alpha1.PolicyStatus
	for _, step := range []struct {
		reason string
		state  rule.State
		want   string
	}{
		{
			"in force", rule.State{Generation: 1, Compiled: true, Enforced: true, Action: "Deny", Kinds: "pods"},
			"Compiled=True(Compiled) Enforced=True(Enforced) Deny pods",
		},
		{
			"suspended", rule.State{Generation: 2, Compiled: true, Suspended: text, Problems: warning, Action: "Deny", Kinds: "pods"},
			"Compiled=True(Compiled) Enforced=False(Suspended) Deny pods event Suspended: " + text,
		},
		{
			"announced once", rule.State{Generation: 3, Compiled: true, Suspended: text, Problems: warning, Action: "Deny", Kinds: "services"},
			"Compiled=True(Compiled) Enforced=False(Suspended) Deny services: " + text,
		},
		{
			"in force again", rule.State{Generation: 4, Compiled: true, Enforced: true, Action: "Deny", Kinds: "pods"},
			"Compiled=True(Compiled) Enforced=True(Enforced) Deny pods event Resumed",
		},
		{
			"one with errors", rule.State{Generation: 5, Suspended: text, Problems: []rule.Problem{{Severity: rule.Error, What: "no such field"}}, Action: "Deny", Kinds: "pods"},
			"Compiled=False(DoesNotCompile) Enforced=False(Suspended) Deny pods event Suspended: " + text,
		},
	} {
		step.state.Policy, step.state.UID = of, "u"
		w := report.StatusTerm(known, step.state, begin)
		got := words(w) + " " + w.Action + " " + w.Kinds
		if w.Event != "" {
			got += " event " + w.Event
		}
		if w.LastError != "" {
			got += ": " + w.LastError
		}
		if diff := cmp.Diff(step.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.reason, diff)
		}
		known = w.PolicyStatus
	}
}

// TestSuspendedExemption: an exemption that is suspended is not valid.
func TestSuspendedExemption(t *testing.T) {
	t.Parallel()
	begin := time.Unix(began, 0)
	p := exempting()
	p.Enforced, p.Suspended = false, "the exemption is suspended: it exempts nothing"
	x := rule.ExemptionState{Ref: p.Policy, UID: p.UID, Generation: p.Generation}
	all := report.ExemptionTerm(t.Context(), report.Written{}, p, x, begin, time.Hour, 3, func(time.Duration) []report.Used { return nil })
	if len(all) != 1 || !strings.HasPrefix(words(all[0]), "Valid=False(Suspended)") || all[0].Event != "Suspended" || all[0].LastError != p.Suspended {
		t.Errorf("got %+v", all)
	}
}

// TestSuspendedAtSome: the status of a policy that is suspended does not say for a moment that every replica enforces
// it, also while some do.
func TestSuspendedAtSome(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.create("a", "u", 1)
		one := c.replica("one")
		one.Observe(good(1))
		time.Sleep(time.Second)
		two := c.replica("two")
		two.Observe(good(1))
		time.Sleep(10 * time.Second)
		c.wantEnforced("a", "True Enforced 1")
		off := good(2)
		off.Policies[0].Enforced, off.Policies[0].Suspended = false, "it is suspended"
		one.Observe(off)
		time.Sleep(time.Second)
		c.wantEnforced("a", "False Suspended 2")
	})
}

// TestSuspendedDoesNotFail: a policy that is suspended does not fail, and one that is resumed has not failed yet.
func TestSuspendedDoesNotFail(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.create("a", "u", 1)
		r := c.replica("one")
		r.Observe(good(1))
		time.Sleep(time.Second)
		c.fail(r, "one", failure(1, 1, time.Now()))
		time.Sleep(2 * time.Second)
		c.wantWorking("in force", "False RuleFails 1: "+failsOnce+" | "+failsOnce)
		off := good(2)
		off.Policies[0].Enforced, off.Policies[0].Suspended = false, "it is suspended"
		r.Observe(off)
		c.fail(r, "one")
		time.Sleep(2 * time.Second)
		c.wantWorking("suspended", "Unknown Suspended 2: an older version has failed; the policy is suspended, and no request meets it | it is suspended")
		r.Observe(good(3))
		time.Sleep(2 * time.Second)
		if got := c.working(); !strings.HasPrefix(got, "Unknown Edited 3: ") {
			t.Errorf("resumed: got %s", got)
		}
	})
}

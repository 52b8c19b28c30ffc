package live_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	usher "github.com/usher-dev/usher"
	usherv1alpha1 "github.com/usher-dev/usher/api/usher/v1alpha1"
	"github.com/usher-dev/usher/internal/rule"
)

// TestSuspend: a policy that is suspended decides nothing, not even in its last good version, and its
// state says so; when it no longer is, it decides again.
func TestSuspend(t *testing.T) {
	t.Parallel()
	source := newScript()
	h := start(t, source)
	ref := usher.PolicyRef{Kind: "ClusterObjectPolicy", Name: "p"}
	var generation int64
	for _, step := range []struct {
		reason            string
		suspended, broken bool
		verdict           string
		status            []usher.PolicyRef
		want              rule.State
	}{
		{reason: "in force", verdict: "deny", want: rule.State{Compiled: true, Enforced: true}},
		{reason: "suspended", suspended: true, verdict: "allow", status: []usher.PolicyRef{ref}, want: rule.State{Compiled: true}},
		{reason: "in force again", verdict: "deny", want: rule.State{Compiled: true, Enforced: true}},
		{reason: "an error leaves the last good version in force", broken: true, verdict: "deny", want: rule.State{Enforced: true}},
		{reason: "which can be suspended", suspended: true, broken: true, verdict: "allow", status: []usher.PolicyRef{ref}},
		{reason: "and is not in force again by that: the version is gone", broken: true, verdict: "allow"},
	} {
		p := refuses(t, "p")
		spec := &p.Object.(*usherv1alpha1.ClusterObjectPolicy).Spec
		if spec.Suspend = step.suspended; step.broken {
			spec.Validations[0].Expression = "nonsense("
		}
		generation++
		p.Object.SetGeneration(generation)
		source.update(set(p))
		status := h.next()
		if got := verdict(t, h.live, validating()); !strings.HasPrefix(got, step.verdict) {
			t.Errorf("%s: got %q", step.reason, got)
		}
		if diff := cmp.Diff(step.status, status.Suspended); diff != "" {
			t.Errorf("%s: suspended (-want +got):\n%s", step.reason, diff)
		}
		got := h.live.Policies()[0]
		if got.Compiled != step.want.Compiled || got.Enforced != step.want.Enforced || (got.Suspended != "") != step.suspended {
			t.Errorf("%s: state %+v", step.reason, got)
		}
		if step.suspended && (len(got.Problems) == 0 || got.InForce() != -1) {
			t.Errorf("%s: it looks healthy: %+v", step.reason, got)
		}
	}
}

// TestSuspendedExemptions: an exemption that is suspended exempts nothing, and one from a policy that is
// suspended is not told that there is no such policy.
func TestSuspendedExemptions(t *testing.T) {
	t.Parallel()
	source := newScript()
	h := start(t, source)
	x, p := exempts(t, "e", "p"), refuses(t, "p")
	source.update(set(p, x))
	h.next()
	if got := verdict(t, h.live, validating()); !strings.HasPrefix(got, "allow") {
		t.Fatalf("an exempt request: %q", got)
	}
	x = exempts(t, "e", "p")
	x.Object.(*usherv1alpha1.ClusterPolicyExemption).Spec.Suspend = true
	x.Object.SetGeneration(2)
	source.update(set(p, x))
	h.next()
	if got := verdict(t, h.live, validating()); !strings.HasPrefix(got, "deny") {
		t.Errorf("with an exemption that is suspended: %q", got)
	}
	p = refuses(t, "p")
	p.Object.(*usherv1alpha1.ClusterObjectPolicy).Spec.Suspend = true
	p.Object.SetGeneration(2)
	source.update(set(p, exempts(t, "e", "p")))
	for _, problem := range h.next().Problems {
		if problem.Policy.Name == "e" {
			t.Errorf("the exemption from a suspended policy has the problem %v", problem)
		}
	}
}

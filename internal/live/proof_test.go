package live_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/internal/rule"
)

// worth is a policy whose proof is in a state.
func worth(p api.Policy, state api.ProofState) api.Policy {
	p.Proof = api.Proof{State: state}
	if state == api.Recorded || state == api.Unproven {
		p.Proof.Why = "it has no proof"
	}
	return p
}

func TestUnprovenPoliciesAllowNothing(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		effect  string
		state   api.ProofState
		verdict usher.Verdict
		// problem is the severity of what is said about it.
		problem rule.Severity
	}{
		{"Allow", api.Proven, usher.Allow, ""},
		{"Allow", api.NoProofNeeded, usher.Allow, ""},
		{"Allow", api.Recorded, usher.Allow, rule.Warning},
		{"Allow", api.Unproven, usher.NoOpinion, rule.Error},
		{"Deny", api.Unproven, usher.Deny, rule.Warning},
	} {
		t.Run(row.effect+" "+string(row.state), func(t *testing.T) {
			t.Parallel()
			a := newScript()
			h := start(t, a)
			a.update(set(worth(access("p", row.effect, "true"), row.state)))
			status := h.next()
			h.wantAccess(row.verdict, "")
			state := h.live.Policies()[0]
			want := rule.State{
				Policy: usher.PolicyRef{Kind: "ClusterAuthorizationPolicy", Name: "p"}, UID: "u-p", Generation: 1, Compiled: true,
				NeedsProof: row.state != api.NoProofNeeded, Problems: state.Problems,
			}
			if row.problem != "" {
				want.Unproven = "it has no proof"
			}
			if row.problem != rule.Error {
				want.Enforced, want.EnforcedGeneration = true, 1
			}
			if d := cmp.Diff(want, state); d != "" {
				t.Errorf("state (-want +got):\n%s", d)
			}
			if withheld := len(status.NotEnforced) == 1; withheld != (row.problem == rule.Error) {
				t.Errorf("not enforced are %v", status.NotEnforced)
			}
			said := ""
			for _, p := range status.Problems {
				if strings.Contains(p.What, "not proven") && strings.Contains(p.Do, "usher authz adopt") {
					said = string(p.Severity)
				}
			}
			if said != string(row.problem) {
				t.Errorf("problems are %v, want a %s", status.Problems, row.problem)
			}
		})
	}
}

// A NoOpinion keeps later tiers from denying: it exempts.
func TestUnprovenPoliciesExemptNobody(t *testing.T) {
	t.Parallel()
	a := newScript()
	h := start(t, a)
	exempting := access("exempt", "NoOpinion", "true", `, "tier": "platform"`)
	a.update(set(worth(exempting, api.Proven), access("no", "Deny", "true")))
	h.next()
	h.wantAccess(usher.NoOpinion, "")
	a.update(set(worth(exempting, api.Unproven), access("no", "Deny", "true")))
	h.next()
	h.wantAccess(usher.Deny, "denied by policy no")
}

func TestUnprovenOverridePoliciesDoNothing(t *testing.T) {
	t.Parallel()
	p, err := api.Decode([]byte(`{"apiVersion": "policy.kcloudlabs.io/v1alpha1", "kind": "OverridePolicy", "metadata": {"name": "p", "namespace": "shop"},
		"spec": {"resourceSelectors": [{"apiVersion": "v1", "kind": "Pod"}],
			"overrideRules": [{"overriders": {"plaintext": [{"path": "/metadata/labels/x", "op": "add", "value": "1"}]}}]}}`))
	if err != nil {
		t.Fatal(err)
	}
	a := newScript()
	h := start(t, a)
	a.update(set(worth(p, api.Unproven)))
	h.next()
	h.wantPatch(`null`)
	a.update(set(worth(p, api.Proven)))
	if status := h.next(); status.Proofs[api.Proven] != 1 || len(status.Proofs) != 1 {
		t.Errorf("proofs are counted as %v", status.Proofs)
	}
	h.wantPatch(`[{"op":"add","path":"/metadata/labels/x","value":"1"}]`)
	// What was proven is not in force any more when its proof is worth nothing any more.
	a.update(set(worth(p, api.Unproven)))
	h.next()
	h.wantPatch(`null`)
}

// TestUnprovenObjectPoliciesDoNothing: a message may quote what only the user who has the right may read.
func TestUnprovenObjectPoliciesDoNothing(t *testing.T) {
	t.Parallel()
	p := decodePolicy(t, `{"apiVersion": "usher.dev/v1alpha1", "kind": "ObjectPolicy", "metadata": {"name": "p", "namespace": "shop"}, "spec": {
		"matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["*"], "resources": ["pods"], "operations": ["*"]}]},
		"validations": [{"expression": "false", "message": "refused"}]}}`)
	a := newScript()
	h := start(t, a)
	for state, want := range map[api.ProofState]string{api.Unproven: "allow", api.Proven: "deny refused"} {
		a.update(set(worth(p, state)))
		h.next()
		if got := verdict(t, h.live, validating()); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s", state, got)
		}
	}
}

// TestManyUnprovenPoliciesDoNotDisturb: policies that bypass Usher slow nothing down.
func TestManyUnprovenPoliciesDoNotDisturb(t *testing.T) {
	t.Parallel()
	policies := []api.Policy{label("a", "x", "1")}
	for i := range 2000 {
		policies = append(policies, worth(access(fmt.Sprintf("p%d", i), "Allow", "true"), api.Unproven))
	}
	a := newScript()
	h := start(t, a)
	a.update(set(policies...))
	status := h.next()
	if n := len(h.live.Access().Rules()); n != 0 || status.Proofs[api.Unproven] != 2000 {
		t.Errorf("%d access rules are in force, proofs %v", n, status.Proofs)
	}
	h.wantPatch(`[{"op":"add","path":"/metadata/labels/x","value":"1"}]`)
	logged := h.log.count("policy problem")
	a.update(set(append(policies, label("b", "y", "1"))...))
	h.next()
	if again := h.log.count("policy problem"); again != logged {
		t.Errorf("an update logs %d problems that were known", again-logged)
	}
}

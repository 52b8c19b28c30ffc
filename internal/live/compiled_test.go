package live_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/live"
)

// admission decodes an admission policy, a binding of one,
// or an exemption.
func admission(t *testing.T, text string) api.Policy {
	t.Helper()
	p, err := api.Decode([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func replicas(t *testing.T, most string) api.Policy {
	t.Helper()
	return admission(t, `{"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": "replicas"}, "spec": {
		"matchConstraints": {"resourceRules": [{"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["deployments"]}]},
		"validations": [{"expression": "object.spec.replicas <= `+most+`"}]}}`)
}

func TestCompiledPoliciesAreThoseInForceAndThoseOfAPIServers(t *testing.T) {
	t.Parallel()
	const binding = `{"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": "replicas"},
		"spec": {"policyName": "replicas", "validationActions": ["Deny"]}}`
	exemption := admission(t, `{"apiVersion": "usher.dev/v1alpha1", "kind": "ClusterPolicyExemption", "metadata": {"name": "spare"}, "spec": {
		"policyRefs": [{"kind": "ValidatingAdmissionPolicy", "name": "*"}], "reason": "r", "owner": "o", "expiresAt": "`+time.Now().Add(time.Hour).UTC().Format(time.RFC3339)+`"}}`)
	source := newScript()
	h := startWith(t, live.Options{}, source)
	names := func() []string {
		var all []string
		for _, c := range h.live.Compiled() {
			name := c.Ref.String()
			if c.Elsewhere {
				name += " elsewhere"
			}
			all = append(all, name)
		}
		return all
	}
	if got := names(); got != nil {
		t.Errorf("before the first update: %v", got)
	}
	known := []api.Policy{replicas(t, "5"), admission(t, binding)}
	h.live.Known(known)
	source.update(set(label("a", "x", "1"), broken("b"), exemption))
	h.next()
	const policy, bound = "ValidatingAdmissionPolicy replicas elsewhere", "ValidatingAdmissionPolicyBinding replicas elsewhere"
	if diff := cmp.Diff([]string{"ClusterOverridePolicy a", "ClusterPolicyExemption spare", policy, bound}, names()); diff != "" {
		t.Error(diff)
	}
	first := h.live.Compiled()
	if again := h.live.Compiled(); first[2].Admission != again[2].Admission {
		t.Error("what API servers enforce is compiled again although it is the same")
	}
	for _, r := range compile.Order(first) {
		if r.Policy.Name == "replicas" && len(r.Exemptions) > 0 {
			t.Error("API servers know no exemptions, but one applies")
		}
	}
	// Their number is the same: the update is because of the new version.
	h.live.Known([]api.Policy{replicas(t, "6"), known[1]})
	h.next()
	next := h.live.Compiled()
	if next[2].Admission == first[2].Admission || next[3].Binding != first[3].Binding {
		t.Error("not exactly the changed policy is compiled again")
	}
	// One that is enforced here is no longer one of theirs.
	source.update(set(label("a", "x", "1"), replicas(t, "7"), known[1], exemption))
	h.next()
	if diff := cmp.Diff([]string{"ClusterOverridePolicy a", "ValidatingAdmissionPolicy replicas", "ValidatingAdmissionPolicyBinding replicas", "ClusterPolicyExemption spare"}, names()); diff != "" {
		t.Error(diff)
	}
	exempt := 0
	for _, r := range compile.Order(h.live.Compiled()) {
		if r.Policy.Name == "replicas" {
			exempt += len(r.Exemptions)
		}
	}
	if exempt == 0 {
		t.Error("no exemption applies to a policy that is enforced here")
	}
}

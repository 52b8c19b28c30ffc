package live_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/internal/live"
)

// TestExemptionsWithoutEffect: an exemption says why it has no effect only if none of the policies
// to which it refers is in force here.
func TestExemptionsWithoutEffect(t *testing.T) {
	t.Parallel()
	decoded := func(format string, args ...any) api.Policy {
		p, err := api.Decode(fmt.Appendf(nil, format, args...))
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	exemption := func(name string, refs ...string) api.Policy {
		return decoded(`{"apiVersion": "usher.dev/v1alpha1", "kind": "ClusterPolicyExemption", "metadata": {"name": %q}, "spec": {
			"policyRefs": [%s], "reason": "r", "owner": "o", "expiresAt": %q}}`, name, strings.Join(refs, ","), time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
	}
	const (
		here    = `{"kind": "ClusterOverridePolicy", "name": "a"}`
		missing = `{"kind": "ClusterOverridePolicy", "name": "mistyped"}`
		foreign = `{"kind": "ValidatingAdmissionPolicy", "name": "vap"}`
	)
	source := newScript()
	h := startWith(t, live.Options{}, source)
	h.live.Known([]api.Policy{decoded(`{"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": "vap"}, "spec": {}}`)})
	source.update(set(label("a", "team", "x"), exemption("one", here), exemption("some", missing, here), exemption("none", missing), exemption("elsewhere", foreign)))
	h.next()
	want := map[string]string{
		"one": "", "some": "",
		"none":      "spec.policyRefs[0].name: there is no ClusterOverridePolicy mistyped in force here",
		"elsewhere": "spec.policyRefs[0].name: API servers enforce the ValidatingAdmissionPolicy vap: they know no exemptions",
	}
	states := h.live.Exemptions()
	if len(states) != len(want) {
		t.Fatalf("%d exemptions: %+v", len(states), states)
	}
	for _, s := range states {
		if text := want[s.Ref.Name]; !strings.HasPrefix(s.NotEffective, text) || (text == "") != (s.NotEffective == "") {
			t.Errorf("%s: %q, want %q", s.Ref.Name, s.NotEffective, text)
		}
	}
}

package live_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	usherv1alpha1 "github.com/usher-dev/usher/api/usher/v1alpha1"
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

// TestExemptionsWithoutEffectAreWarnedOf: who writes an exemption learns at once what its status will say.
func TestExemptionsWithoutEffectAreWarnedOf(t *testing.T) {
	t.Parallel()
	policy := func(name, exemptions string) api.Policy {
		return decodePolicy(t, `{"apiVersion": "usher.dev/v1alpha1", "kind": "ClusterObjectPolicy", "metadata": {"name": %q}, "spec": {%s
			"matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}]},
			"validations": [{"expression": "object.metadata.name != 'x'"}]}}`, name, exemptions)
	}
	source := newScript()
	h := startWith(t, live.Options{}, source)
	source.update(set(policy("open", `"namespaceExemptions": "Allow",`), policy("closed", ""), policy("off", `"namespaceExemptions": "Allow", "suspend": true,`)))
	h.next()
	for name, want := range map[string]string{
		"open": "", "closed": "ClusterObjectPolicy closed does not permit exemptions of namespaces", "mistyped": "there is no ClusterObjectPolicy mistyped in force here",
		"off": "ClusterObjectPolicy off is suspended: the exemption counts when it is in force again",
	} {
		text := fmt.Sprintf(`{"apiVersion": "usher.dev/v1alpha1", "kind": "PolicyExemption", "metadata": {"name": "e", "namespace": "shop"}, "spec": {
			"policyRefs": [{"kind": "ClusterObjectPolicy", "name": %q}], "reason": "r", "owner": "o", "expiresAt": %q}}`, name, time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
		d, err := h.live.Decide(t.Context(), &usher.Request{
			Phase: usher.Validate, Operation: usher.Create, Namespace: "shop", Name: "e", Object: usher.RawObject([]byte(text)),
			Kind: usherv1alpha1.GroupVersion.WithKind("PolicyExemption"), Resource: usherv1alpha1.GroupVersion.WithResource("policyexemptions"),
		})
		warnings := strings.Join(d.Warnings, ", ")
		if err != nil || d.Verdict == usher.Deny || (want == "") != (warnings == "") || !strings.Contains(warnings, want) {
			t.Errorf("%s: %s %v, warnings %q, want %q", name, d.Verdict, err, warnings, want)
		}
	}
}

// TestCandidatesThatReplaceNothing: a candidate for a policy that is not in force is a problem, and who writes it is
// warned.
func TestCandidatesThatReplaceNothing(t *testing.T) {
	t.Parallel()
	const text = `{"apiVersion": "usher.dev/v1alpha1", "kind": "ClusterPolicyCandidate", "metadata": {"name": %q}, "spec": {"remove": true, "replaces": {"kind": %q, "name": %q}}}`
	source := newScript()
	h := startWith(t, live.Options{Candidates: &live.Candidates{}}, source)
	h.live.Known([]api.Policy{decodePolicy(t, `{"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": "vap"}, "spec": {}}`)})
	source.update(set(label("a", "team", "x"), decodePolicy(t, text, "good", "ClusterOverridePolicy", "a"), decodePolicy(t, text, "bad", "ClusterOverridePolicy", "mistyped"),
		decodePolicy(t, text, "elsewhere", "ValidatingAdmissionPolicy", "vap")))
	h.next()
	const want = "there is no ClusterOverridePolicy mistyped in force here"
	found := ""
	for _, p := range h.live.Status().Problems {
		if p.Field == "spec.replaces.name" {
			found += p.Policy.Name + ": " + p.What
		}
	}
	if !strings.HasPrefix(found, "bad: "+want) || strings.Count(found, "there is no") != 1 {
		t.Errorf("problems: %q", found)
	}
	d, err := h.live.Decide(t.Context(), &usher.Request{
		Phase: usher.Validate, Operation: usher.Create, Name: "bad", Object: usher.RawObject(fmt.Appendf(nil, text, "bad", "ClusterOverridePolicy", "mistyped")),
		Kind: usherv1alpha1.GroupVersion.WithKind("ClusterPolicyCandidate"), Resource: usherv1alpha1.GroupVersion.WithResource("clusterpolicycandidates"),
	})
	if warnings := strings.Join(d.Warnings, ", "); err != nil || d.Verdict == usher.Deny || !strings.Contains(warnings, want) {
		t.Errorf("%s %v, warnings %q", d.Verdict, err, warnings)
	}
}

package guard_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/api/usher/v1alpha1"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/compile/guard"
)

func TestRightsOfExemptions(t *testing.T) {
	t.Parallel()
	ref := func(kind, name string) v1alpha1.PolicyRef { return v1alpha1.PolicyRef{Kind: kind, Name: name} }
	var many []v1alpha1.PolicyRef
	for i := range 5000 {
		many = append(many, ref("ClusterObjectPolicy", fmt.Sprint(i)))
	}
	for _, test := range []struct {
		reason    string
		namespace string
		refs      []v1alpha1.PolicyRef
		want      []string
	}{
		{"a policy by its name", "", []v1alpha1.PolicyRef{ref("ClusterObjectPolicy", "x")}, []string{"exempt clusterobjectpolicies.usher.dev x in"}},
		{"a right to some of its validations is a right to all", "", []v1alpha1.PolicyRef{{Kind: "ClusterObjectPolicy", Name: "x", Validations: []string{"a"}}}, []string{"exempt clusterobjectpolicies.usher.dev x in"}},
		{"a pattern is for all policies", "", []v1alpha1.PolicyRef{ref("ClusterObjectPolicy", "x-*")}, []string{"exempt clusterobjectpolicies.usher.dev in"}},
		{"each policy, of every kind, once", "", []v1alpha1.PolicyRef{
			ref("ClusterValidatePolicy", "x"), ref("ClusterOverridePolicy", "x"), ref("ValidatingAdmissionPolicy", "x"), ref("MutatingAdmissionPolicy", "x"), ref("ClusterValidatePolicy", "x"),
		}, []string{
			"exempt clustervalidatepolicies.policy.kcloudlabs.io x in", "exempt clusteroverridepolicies.policy.kcloudlabs.io x in",
			"exempt validatingadmissionpolicies.admissionregistration.k8s.io x in", "exempt mutatingadmissionpolicies.admissionregistration.k8s.io x in",
		}},
		{"in the cluster, policies of namespaces are those of all", "", []v1alpha1.PolicyRef{ref("ObjectPolicy", "x")}, []string{"exempt objectpolicies.usher.dev x in"}},
		{"in a namespace, they are its own", "shop", []v1alpha1.PolicyRef{ref("ObjectPolicy", "x"), ref("OverridePolicy", "*")}, []string{
			"exempt objectpolicies.usher.dev x in shop", "exempt overridepolicies.policy.kcloudlabs.io in shop",
		}},
		{"rights in a namespace are none to policies of the cluster", "shop", []v1alpha1.PolicyRef{ref("ClusterObjectPolicy", "x")}, []string{"exempt clusterobjectpolicies.usher.dev x in"}},
		{"too many policies to ask about each", "", many, []string{"exempt *.* in"}},
		{"an unknown kind needs everything", "shop", []v1alpha1.PolicyRef{ref("Widget", "x")}, []string{"exempt *.* x in shop"}},
	} {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			spec := v1alpha1.PolicyExemptionSpec{PolicyRefs: test.refs}
			c := compile.Compiled{Policy: api.Policy{Object: &v1alpha1.ClusterPolicyExemption{Spec: spec}}}
			if test.namespace != "" {
				c.Policy.Object, c.Ref.Namespace = &v1alpha1.PolicyExemption{Spec: spec}, test.namespace
			}
			rights, err := guard.RightsOf(t.Context(), usher.User{Name: "jane"}, c, nil)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, right := range rights {
				got = append(got, question(right.Ask))
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

const exemption = `{apiVersion: usher.dev/v1alpha1, kind: ClusterPolicyExemption, metadata: {name: e}, spec: {
	policyRefs: [{kind: ClusterObjectPolicy, name: x}], reason: legacy, owner: team-a, expiresAt: '%s'}}`

func TestWhoMayExempt(t *testing.T) {
	t.Parallel()
	now := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	const x = "exempt clusterobjectpolicies.usher.dev x in"
	in := func(d time.Duration) string { return now.Add(d).Format(time.RFC3339) }
	for _, test := range []struct {
		reason  string
		expires string
		may     []string
		longest time.Duration
		refused string
		warned  string
	}{
		{reason: "with the right", expires: in(time.Hour), may: []string{x}},
		{reason: "without it", expires: in(time.Hour), refused: "ClusterPolicyExemption e: spec.policyRefs[0] needs permission to exempt clusterobjectpolicies.usher.dev x, which jane does not have (the verb exempt, of a ClusterRoleBinding"},
		{reason: "another verb is no help", expires: in(time.Hour), may: []string{"escalate clusterobjectpolicies.usher.dev x in", "update clusterobjectpolicies.usher.dev x in"}, refused: "permission to exempt"},
		{reason: "until the last permitted moment", expires: in(90 * 24 * time.Hour), may: []string{x}, longest: 90 * 24 * time.Hour},
		{reason: "a writer whose clock is ahead", expires: in(90*24*time.Hour + time.Minute), may: []string{x}, longest: 90 * 24 * time.Hour},
		{
			reason: "too long", expires: in(91 * 24 * time.Hour), may: []string{x}, longest: 90 * 24 * time.Hour,
			refused: "ClusterPolicyExemption e: spec.expiresAt: an exemption may end at most 90 days after it is written, now 2030-04-01T12:00:00Z, and this one ends 2030-04-02T12:00:00Z (write an earlier time",
		},
		{reason: "no limit", expires: "9999-12-31T23:59:59Z", may: []string{x}},
		{reason: "expired already", expires: in(-time.Hour), may: []string{x}, warned: "spec.expiresAt: it has expired already, at 2030-01-01T11:00:00Z, and exempts nothing"},
	} {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			may := func(_ context.Context, r *usher.Request) (bool, error) {
				return slices.Contains(test.may, question(r)), nil
			}
			g := guard.Wrap(usher.DeciderFunc(allow), guard.Options{May: may, LongestExemption: test.longest, Now: func() time.Time { return now }})
			tree := object(t, fmt.Sprintf(exemption, test.expires))
			d, err := g.Decide(t.Context(), &usher.Request{
				Phase: usher.Validate, Operation: usher.Create, User: usher.User{Name: "jane"},
				Kind: v1alpha1.GroupVersion.WithKind("ClusterPolicyExemption"), Name: "e", Object: usher.TreeObject(tree),
			})
			if err != nil {
				t.Fatal(err)
			}
			if denied := d.Verdict == usher.Deny; denied != (test.refused != "") || !strings.Contains(d.Message, test.refused) {
				t.Errorf("%s: %q, want %q", d.Verdict, d.Message, test.refused)
			}
			if warned := strings.Join(d.Warnings, "\n"); warned != test.warned {
				t.Errorf("warns %q, want %q", warned, test.warned)
			}
		})
	}
}

// TestRenewals writes an exemption again, with a date that is past.
func TestRenewals(t *testing.T) {
	t.Parallel()
	now := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	ends := func(after time.Duration) *usher.Object {
		return usher.TreeObject(object(t, fmt.Sprintf(exemption, now.Add(after).Format(time.RFC3339))))
	}
	may := func(context.Context, *usher.Request) (bool, error) { return true, nil }
	g := guard.Wrap(usher.DeciderFunc(allow), guard.Options{May: may, Now: func() time.Time { return now }})
	for after, warned := range map[time.Duration]bool{-time.Hour: true, 2 * time.Hour: false} {
		d, err := g.Decide(t.Context(), &usher.Request{
			Phase: usher.Validate, Operation: usher.Update, User: usher.User{Name: "jane"},
			Kind: v1alpha1.GroupVersion.WithKind("ClusterPolicyExemption"), Name: "e", Object: ends(after), OldObject: ends(time.Hour),
		})
		if err != nil || d.Verdict == usher.Deny || strings.Contains(strings.Join(d.Warnings, "\n"), "it has expired already") != warned {
			t.Errorf("renewed for %s: %+v, %v", after, d, err)
		}
	}
}

// TestExemptionsAreProven writes exemptions in every way: only those of writers with the right are
// stored with a proof.
func TestExemptionsAreProven(t *testing.T) {
	t.Parallel()
	p := newProving(t)
	plain := object(t, fmt.Sprintf(exemption, time.Now().Add(time.Hour).UTC().Format(time.RFC3339)))
	proven, message := p.put("admin", nil, plain)
	if message != "" || p.state(proven) != api.Proven {
		t.Fatalf("the exemption is %v: %s", proven, message)
	}
	wider := func(tree map[string]any) map[string]any {
		return with(tree, map[string]any{"spec.policyRefs": []any{map[string]any{"kind": "ClusterObjectPolicy", "name": "*"}}})
	}
	longer := func(tree map[string]any) map[string]any {
		return with(tree, map[string]any{"spec.expiresAt": "2999-01-01T00:00:00Z"})
	}
	for _, row := range []struct {
		reason, user string
		old, written map[string]any
		message      string
		state        api.ProofState
	}{
		{"without the right", "mallory", nil, plain, "permission to exempt clusterobjectpolicies.usher.dev x", ""},
		{"with the proof of another one", "mallory", nil, with(proven, map[string]any{"metadata.name": "f"}), "permission to exempt", ""},
		{"an invented proof", "mallory", nil, annotated(plain, "v1.0123456789ab.AAAA"), "permission to exempt", ""},
		{"longer, after the proof", "mallory", proven, longer(proven), "permission to exempt", ""},
		{"more policies, after the proof", "mallory", proven, wider(proven), "permission to exempt", ""},
		{"a label", "mallory", proven, with(proven, map[string]any{"metadata.labels": map[string]any{"a": "b"}}), "", api.Proven},
		{"a stored one without a proof stays so", "mallory", plain, with(plain, map[string]any{"metadata.labels": map[string]any{"a": "b"}}), "", api.Unproven},
		{"to adopt a stored one", "mallory", plain, annotated(plain, "adopt"), "permission to escalate clusterpolicyexemptions.usher.dev e", ""},
		{"to adopt it with the right", "admin", plain, annotated(plain, "adopt"), "", api.Proven},
		{"longer, with the right", "admin", proven, longer(proven), "", api.Proven},
	} {
		stored, message := p.put(row.user, row.old, row.written)
		if !strings.Contains(message, row.message) || (message == "") != (row.message == "") {
			t.Errorf("%s: message %q, want %q", row.reason, message, row.message)
		}
		if row.message == "" && p.state(stored) != row.state {
			t.Errorf("%s: it is %s, want %s", row.reason, p.state(stored), row.state)
		}
	}
}

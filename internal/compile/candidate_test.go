package compile_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/rule"
)

// TestCandidates: what is wrong with a candidate is told where it is.
func TestCandidates(t *testing.T) {
	t.Parallel()
	const (
		own       = `{apiVersion: usher.dev/v1alpha1, kind: ObjectPolicy, metadata: {name: o}, spec: {matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}, validations: [{expression: "true"}]}}`
		cluster   = `{apiVersion: usher.dev/v1alpha1, kind: ClusterObjectPolicy, metadata: {name: o}, spec: {matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}, validations: [{expression: "true"}]}}`
		access    = `{apiVersion: usher.dev/v1alpha1, kind: AuthorizationPolicy, metadata: {name: o, namespace: shop}, spec: {effect: Allow, subjects: [{users: [jane]}], rules: [{verbs: [get], apiGroups: [""], resources: [pods]}]}}`
		safeguard = `{apiVersion: usher.dev/v1alpha1, kind: ClusterAuthorizationPolicy, metadata: {name: s}, spec: {tier: safeguard, effect: Deny, subjects: [{users: [jane]}], rules: [{verbs: [get], apiGroups: [""], resources: [pods]}]}}`
		kcloud    = `{apiVersion: policy.kcloudlabs.io/v1alpha1, kind: ClusterOverridePolicy, metadata: {name: k}, spec: {overrideRules: [{overriders: {plaintext: [{path: /x, op: %s, value: "a"}]}}]}}`
	)
	for _, test := range []struct{ reason, kind, spec, want string }{
		{"a policy of its namespace", "PolicyCandidate", "policies: [" + own + "]", ""},
		{"of another", "PolicyCandidate", "policies: [" + strings.Replace(own, "name: o", "name: o, namespace: blog", 1) + "]", "spec.policies[0]: a PolicyCandidate is for policies of its own namespace"},
		{"of the cluster", "PolicyCandidate", "policies: [" + cluster + "]", "spec.policies[0]: a PolicyCandidate is for policies of its own namespace"},
		{"one without a namespace", "ClusterPolicyCandidate", "policies: [" + own + "]", "spec.policies[0].metadata.namespace: the policy has no namespace"},
		{"about access", "PolicyCandidate", "policies: [" + access + "]", ""},
		{"a denial of a namespace", "PolicyCandidate", "policies: [" + strings.Replace(access, "Allow", "Deny", 1) + "]", "spec.policies[0].spec.effect: an AuthorizationPolicy refuses nothing"},
		{"about access, of a cluster in the tier of files", "ClusterPolicyCandidate", "policies: [" + safeguard + "]", ""},
		{"its removal", "PolicyCandidate", "replaces: {kind: AuthorizationPolicy, name: o}, remove: true", ""},
		{"twice", "ClusterPolicyCandidate", "policies: [" + cluster + ", " + cluster + "]", "spec.policies[1]: it embeds ClusterObjectPolicy o twice"},
		{"replaced by itself", "ClusterPolicyCandidate", "replaces: {kind: ClusterObjectPolicy, name: o}, policies: [" + cluster + "]", ""},
		{"replaced by another", "ClusterPolicyCandidate", "replaces: {kind: ClusterObjectPolicy, name: p}, policies: [" + cluster + "]", "spec.replaces: none of spec.policies is ClusterObjectPolicy p"},
		{"an unknown kind", "ClusterPolicyCandidate", "replaces: {kind: Widget, name: p}, remove: true", `spec.replaces.kind: "Widget" is not a kind of policy`},
		{"a candidate is not replaced", "ClusterPolicyCandidate", "replaces: {kind: ClusterPolicyCandidate, name: p}, remove: true", `spec.replaces.kind: "ClusterPolicyCandidate" is not a kind of policy`},
		{"a removal of a namespace", "ClusterPolicyCandidate", "replaces: {kind: ObjectPolicy, name: p}, remove: true", "spec.replaces.namespace: the policy has a namespace"},
		{"a removal", "PolicyCandidate", "replaces: {kind: ObjectPolicy, name: p}, remove: true", ""},
		{"nothing", "ClusterPolicyCandidate", "", "write policies, or remove: true"},
		{"both", "ClusterPolicyCandidate", "remove: true, replaces: {kind: ClusterObjectPolicy, name: o}, policies: [" + cluster + "]", "write policies, or remove: true"},
		{"a policy of kinitiras", "ClusterPolicyCandidate", "policies: [" + fmt.Sprintf(kcloud, "add") + "]", ""},
		{"one that its CRD refuses", "ClusterPolicyCandidate", "policies: [" + fmt.Sprintf(kcloud, "put") + "]", "spec.policies[0].spec.overrideRules[0].overriders.plaintext[0].op: "},
	} {
		namespace := ""
		if test.kind == "PolicyCandidate" {
			namespace = ", namespace: shop"
		}
		c := compile.Policy(decode(t, "c.yaml", fmt.Appendf(nil, "apiVersion: usher.dev/v1alpha1\nkind: %s\nmetadata: {name: c%s}\nspec: {%s}\n", test.kind, namespace, test.spec)))
		var errs []string
		for _, p := range rule.Errors(c.Problems) {
			errs = append(errs, p.Field+": "+p.What)
		}
		if got := strings.Join(errs, "; "); !strings.Contains(got, test.want) || test.want == "" && got != "" {
			t.Errorf("%s: got %q, want %q", test.reason, got, test.want)
		}
	}
}

// TestCandidateInTheTierOfFiles: a candidate that is stored cannot be in force later in a tier that only files have.
func TestCandidateInTheTierOfFiles(t *testing.T) {
	t.Parallel()
	const text = `{apiVersion: usher.dev/v1alpha1, kind: ClusterPolicyCandidate, metadata: {name: c%s}, spec: {policies: [
{apiVersion: usher.dev/v1alpha1, kind: ClusterAuthorizationPolicy, metadata: {name: s}, spec: {tier: safeguard, effect: Deny, confirmWithin: 1s, subjects: [{users: [jane]}], rules: [{verbs: [get], apiGroups: [""], resources: [pods]}]}}]}}`
	for _, test := range []struct{ file, metadata, want string }{
		{"c.yaml", ", uid: u", ""},
		{"", ", uid: u", "policies of a cluster cannot be in the tier safeguard"},
	} {
		policy := decode(t, "c.yaml", fmt.Appendf(nil, text, test.metadata))
		if test.file == "" {
			policy.Locate = nil
		}
		c := compile.Policy(policy)
		got := ""
		for _, p := range rule.Errors(c.Problems) {
			got += p.What
		}
		if got != test.want {
			t.Errorf("from %q: got %q, want %q", test.file, got, test.want)
		}
		if embedded := c.Candidate.Policies[0]; len(embedded.Access) == 0 || !embedded.Access[0].Policy.Confirm.IsZero() {
			t.Errorf("from %q: it has to be confirmed: %v", test.file, embedded.Access)
		}
	}
}

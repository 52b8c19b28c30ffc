package guard_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/compile/guard"
	"github.com/usher-dev/usher/internal/rule"
)

// embedding is a candidate with policies; of a namespace if that is not empty.
func embedding(t *testing.T, namespace, rest string, policies ...string) compile.Compiled {
	t.Helper()
	kind, metadata := "ClusterPolicyCandidate", "name: c"
	if namespace != "" {
		kind, metadata = "PolicyCandidate", metadata+", namespace: "+namespace
	}
	if len(policies) > 0 {
		rest += "policies: [" + strings.Join(policies, ", ") + "]"
	}
	raw, err := yaml.YAMLToJSON(fmt.Appendf(nil, `{apiVersion: usher.dev/v1alpha1, kind: %s, metadata: {%s}, spec: {%s}}`, kind, metadata, rest))
	if err != nil {
		t.Fatal(err)
	}
	policy, err := api.Decode(raw)
	if err != nil {
		t.Fatal(err)
	}
	c := compile.Policy(policy)
	if errs := rule.Errors(c.Problems); len(errs) > 0 {
		t.Fatal(errs)
	}
	return c
}

const (
	ownPolicy = `{apiVersion: usher.dev/v1alpha1, kind: ObjectPolicy, metadata: {name: o, namespace: shop}, spec: {
		matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [secrets]}]},
		data: [{name: d, object: {apiVersion: v1, kind: Pod, name: p}}], validations: [{expression: "true"}]}}`
	clusterPolicy = `{apiVersion: usher.dev/v1alpha1, kind: ClusterObjectPolicy, metadata: {name: o}, spec: {
		matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [secrets]}]}, validations: [{expression: "true"}]}}`
	exemptionFrom = `{apiVersion: usher.dev/v1alpha1, kind: ClusterPolicyExemption, metadata: {name: e}, spec: {policyRefs: [{kind: ClusterObjectPolicy, name: o}],
		reason: r, owner: o, expiresAt: "%s"}}`
	vapBinding = `{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicyBinding, metadata: {name: b}, spec: {policyName: p, validationActions: [Deny]}}`
)

// TestRightsOfCandidates: a candidate needs the rights to write its policies, and those that they need.
func TestRightsOfCandidates(t *testing.T) {
	t.Parallel()
	const later = "2999-01-01T00:00:00Z"
	for _, test := range []struct {
		reason string
		of     compile.Compiled
		want   []string
	}{
		{"a policy of the cluster", embedding(t, "", "", clusterPolicy), []string{"create clusterobjectpolicies.usher.dev in"}},
		{"one of a namespace, with what it acts on and reads", embedding(t, "shop", "", ownPolicy), []string{
			"create objectpolicies.usher.dev in shop", "create secrets in shop", "get pods p in shop",
		}},
		{"the same, by a candidate of the cluster", embedding(t, "", "", ownPolicy), []string{
			"create objectpolicies.usher.dev in shop", "create secrets in shop", "get pods p in shop",
		}},
		{"an exemption", embedding(t, "", "", fmt.Sprintf(exemptionFrom, later)), []string{
			"create clusterpolicyexemptions.usher.dev in", "exempt clusterobjectpolicies.usher.dev o in",
		}},
		{"a binding", embedding(t, "", "", vapBinding), []string{"create validatingadmissionpolicybindings.admissionregistration.k8s.io in"}},
		{"a removal", embedding(t, "", "replaces: {kind: ClusterObjectPolicy, name: o}, remove: true"), []string{"delete clusterobjectpolicies.usher.dev o in"}},
		{"a removal in a namespace", embedding(t, "shop", "replaces: {kind: ObjectPolicy, name: o}, remove: true"), []string{"delete objectpolicies.usher.dev o in shop"}},
	} {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			rights, err := guard.RightsOf(t.Context(), usher.User{Name: "jane"}, test.of, places)
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

// TestCandidatesAreChecked: what policy admission refuses of a policy, it refuses of a candidate with it.
func TestCandidatesAreChecked(t *testing.T) {
	t.Parallel()
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	tried := func(_ context.Context, c compile.Compiled) []rule.Problem {
		return []rule.Problem{{Severity: rule.Mistake, Field: "spec.validations[0]", What: "fails for all " + c.Ref.Name}}
	}
	for _, test := range []struct {
		reason  string
		options guard.Options
		policy  string
		want    string
	}{
		{"one that compiles", guard.Options{}, clusterPolicy, ""},
		{"one that does not", guard.Options{}, strings.Replace(clusterPolicy, `"true"`, `"object.x ="`, 1), "spec.policies[0].spec.validations[0].expression: "},
		{"fields that it does not have", guard.Options{}, strings.Replace(clusterPolicy, `validations:`, `validation:`, 1), "spec.policies[0].spec.validation: unknown field (did you mean validations?)"},
		{"what its CRD refuses", guard.Options{}, strings.Replace(clusterPolicy, `validations:`, `severity: awful, validations:`, 1), "spec.policies[0].spec.severity: "},
		{"what trying it finds", guard.Options{Trial: tried}, clusterPolicy, "spec.policies[0].spec.validations[0]: fails for all o"},
		{"an exemption that ends too late", guard.Options{LongestExemption: time.Hour, Now: func() time.Time { return now }},
			fmt.Sprintf(exemptionFrom, "2031-01-01T00:00:00Z"), "spec.policies[0].spec.expiresAt: an exemption may end at most"},
		{"a candidate", guard.Options{}, `{apiVersion: usher.dev/v1alpha1, kind: PolicyCandidate, metadata: {name: x, namespace: shop}, spec: {}}`, "a candidate embeds no candidates"},
		{"what is no policy", guard.Options{}, `{apiVersion: v1, kind: ConfigMap, metadata: {name: x}}`, "spec.policies[0]: it is not of a kind that Usher enforces"},
	} {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			text := yamlToJSON(t, fmt.Sprintf(`{apiVersion: usher.dev/v1alpha1, kind: ClusterPolicyCandidate, metadata: {name: c}, spec: {policies: [%s]}}`, test.policy))
			r := &usher.Request{Phase: usher.Validate, Operation: usher.Create, Object: usher.RawObject([]byte(text)), Name: "c"}
			d, err := guard.Wrap(usher.DeciderFunc(allow), test.options).Decide(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			if (d.Verdict == usher.Deny) != (test.want != "") || !strings.Contains(d.Message, test.want) {
				t.Errorf("%s: %s", d.Verdict, d.Message)
			}
		})
	}
}

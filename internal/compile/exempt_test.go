package compile_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/rule"
)

const exemptPolicies = `
apiVersion: usher.dev/v1alpha1
kind: ClusterObjectPolicy
metadata: {name: open}
spec:
  namespaceExemptions: Allow
  podTemplates: "Off"
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}
  validations: [{name: a, expression: "true"}, {expression: "true"}]
---
apiVersion: usher.dev/v1alpha1
kind: ClusterObjectPolicy
metadata: {name: closed}
spec:
  podTemplates: "Off"
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}
  validations: [{name: b, expression: "true"}]
---
apiVersion: usher.dev/v1alpha1
kind: ObjectPolicy
metadata: {name: own, namespace: shop}
spec:
  podTemplates: "Off"
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}
  validations: [{name: c, expression: "true"}]
  mutations: [{patchType: JSONPatch, jsonPatch: {expression: "[JSONPatch{op: 'remove', path: '/metadata/labels'}]"}}]
---
apiVersion: policy.kcloudlabs.io/v1alpha1
kind: ClusterValidatePolicy
metadata: {name: rules}
spec:
  validateRules: [{cue: "validate: {valid: true}"}, {cue: "validate: {valid: true}"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: vap}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}
  validations: [{expression: "true"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: all}
spec: {policyName: vap, validationActions: [Deny]}
`

// exemptionFrom is an exemption that ends when 2030 begins; of a namespace if that is given.
func exemptionFrom(t testing.TB, name, namespace, ref string) compile.Compiled {
	t.Helper()
	kind, metadata := "ClusterPolicyExemption", "name: "+name
	if namespace != "" {
		kind, metadata = "PolicyExemption", metadata+", namespace: "+namespace
	}
	return compile.Policy(decode(t, name, fmt.Appendf(nil, "{apiVersion: usher.dev/v1alpha1, kind: %s, metadata: {%s}, spec: {policyRefs: [{%s}], reason: r, owner: o, expiresAt: '2030-01-01T00:00:00Z'}}", kind, metadata, ref)))
}

func exemptFrom(t testing.TB) []compile.Compiled {
	t.Helper()
	var policies []api.Policy
	for text := range strings.SplitSeq(exemptPolicies, "---\n") {
		policies = append(policies, decode(t, "policies", []byte(text)))
	}
	compiled, problems := compile.All(policies)
	if errs := rule.Errors(problems); len(errs) > 0 {
		t.Fatal(errs)
	}
	return compiled
}

func TestExemptionsOfRules(t *testing.T) {
	t.Parallel()
	before := time.Date(2029, 12, 31, 23, 59, 59, 0, time.UTC)
	for _, test := range []struct {
		reason, namespace, ref string
		now                    time.Time
		// rules are those that have the exemption, with the validations; problems what it seems to do.
		rules    []string
		problems []string
	}{
		{"a policy", "", "kind: ClusterObjectPolicy, name: open", before, []string{"ClusterObjectPolicy open spec.validations []"}, nil},
		{"all policies of a kind", "", "kind: ClusterObjectPolicy, name: '*'", before, []string{"ClusterObjectPolicy closed spec.validations []", "ClusterObjectPolicy open spec.validations []"}, nil},
		{"a validation", "", "kind: ClusterObjectPolicy, name: open, validations: [a]", before, []string{"ClusterObjectPolicy open spec.validations [a]"}, nil},
		{"a policy of a namespace, with its mutations", "", "kind: ObjectPolicy, name: own", before, []string{"ObjectPolicy shop/own spec.mutations []", "ObjectPolicy shop/own spec.validations []"}, nil},
		{"a validation does not have mutations", "shop", "kind: ObjectPolicy, name: own, validations: [c]", before, []string{"ObjectPolicy shop/own spec.validations [c]"}, nil},
		{"the policy of another namespace", "lab", "kind: ObjectPolicy, name: own", before, nil, []string{"there is no ObjectPolicy own in force here: no request is exempt from it"}},
		{"a policy that permits it", "lab", "kind: ClusterObjectPolicy, name: open", before, []string{"ClusterObjectPolicy open spec.validations []"}, nil},
		{"a policy that does not", "lab", "kind: ClusterObjectPolicy, name: closed", before, nil, []string{"ClusterObjectPolicy closed does not permit exemptions of namespaces: no request is exempt from it"}},
		{"of all policies those that do", "lab", "kind: ClusterObjectPolicy, name: '*'", before, []string{"ClusterObjectPolicy open spec.validations []"}, nil},
		{"each binding", "", "kind: ValidatingAdmissionPolicy, name: vap", before, []string{"ValidatingAdmissionPolicy vap binding all []"}, nil},
		{"one rule", "", "kind: ClusterValidatePolicy, name: rules, validations: ['spec.validateRules[1]']", before, []string{"ClusterValidatePolicy rules spec.validateRules[1] []"}, nil},
		{"all policies of a kind of which there are none", "", "kind: MutatingAdmissionPolicy, name: '*'", before, nil, []string{"there is no MutatingAdmissionPolicy * in force here: no request is exempt from it"}},
		{"all policies of all kinds", "", "kind: ClusterOverridePolicy, name: '*'}, {kind: MutatingAdmissionPolicy, name: '*'", before, nil, nil},
		{"a pattern that no policy has", "", "kind: ClusterObjectPolicy, name: 'nope-*'", before, nil, []string{"there is no ClusterObjectPolicy nope-* in force here: no request is exempt from it"}},
		{"no such policy", "", "kind: ClusterObjectPolicy, name: nope", before, nil, []string{"there is no ClusterObjectPolicy nope in force here: no request is exempt from it"}},
		{"no such validation", "", "kind: ClusterObjectPolicy, name: open, validations: [a, b]", before, []string{"ClusterObjectPolicy open spec.validations [a b]"}, []string{`ClusterObjectPolicy open has no validation "b"`}},
		{"a validation of the policy that does not permit it", "lab", "kind: ClusterObjectPolicy, name: '*', validations: [b]", before, []string{"ClusterObjectPolicy open spec.validations [b]"}, []string{`ClusterObjectPolicy open has no validation "b"`}},
		{"expired", "", "kind: ClusterObjectPolicy, name: open", before.Add(time.Second), []string{"ClusterObjectPolicy open spec.validations []"}, []string{"it expired at 2030-01-01T00:00:00Z: no request is exempt"}},
	} {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			all := append(exemptFrom(t), exemptionFrom(t, "x", test.namespace, test.ref))
			var got []string
			for _, r := range compile.Order(all) {
				for _, x := range r.Exemptions {
					got = append(got, fmt.Sprintf("%s %s %v", r.Policy, r.Name, []string(x.Validations)))
				}
			}
			if d := cmp.Diff(test.rules, slices.Sorted(slices.Values(got))); d != "" {
				t.Errorf("rules (-want +got):\n%s", d)
			}
			var said []string
			for _, p := range compile.Ineffective(all, nil, test.now) {
				said = append(said, p.What)
			}
			if d := cmp.Diff(test.problems, said); d != "" {
				t.Errorf("problems (-want +got):\n%s", d)
			}
		})
	}
}

// TestExemptionsFromPoliciesElsewhere are from policies that API servers enforce.
func TestExemptionsFromPoliciesElsewhere(t *testing.T) {
	t.Parallel()
	var elsewhere []api.Policy
	for _, c := range exemptFrom(t) {
		elsewhere = append(elsewhere, c.Policy)
	}
	problems := compile.Ineffective([]compile.Compiled{exemptionFrom(t, "x", "", "kind: ValidatingAdmissionPolicy, name: vap")}, elsewhere, time.Time{})
	if len(problems) != 1 || problems[0].What != "API servers enforce the ValidatingAdmissionPolicy vap: they know no exemptions" {
		t.Errorf("problems are %v", problems)
	}
}

// TestExemptionAmongFiles: a policy that is in no file may exist, so that nothing seems to be wrong with an exemption
// from it.
func TestExemptionAmongFiles(t *testing.T) {
	t.Parallel()
	const do = "check it together with the policy (usher check -p FILE), or read the status of the exemption in the cluster"
	for _, test := range []struct{ reason, ref, what, do string }{
		{"the policy is there", "kind: ClusterObjectPolicy, name: open", "", ""},
		{"the policy is not there", "kind: ClusterObjectPolicy, name: nope", "no ClusterObjectPolicy nope is among the policies given: it is not known whether the exemption has an effect", do},
		{"none of a pattern is", "kind: ClusterObjectPolicy, name: 'nope-*'", "no ClusterObjectPolicy nope-* is among the policies given: it is not known whether the exemption has an effect", do},
		{"several are not there", "kind: ClusterObjectPolicy, name: a}, {kind: ObjectPolicy, name: b}, {kind: ClusterObjectPolicy, name: open}, {kind: ClusterObjectPolicy, name: c}, {kind: ClusterObjectPolicy, name: d", "none of ClusterObjectPolicy a, ObjectPolicy b, ClusterObjectPolicy c and 1 more is among the policies given: it is not known whether the exemption has an effect", do},
		{"the policy has no such validation", "kind: ClusterObjectPolicy, name: open, validations: [b]", `ClusterObjectPolicy open has no validation "b"`, "write the name of a validation, or its place such as spec.validations[0]"},
	} {
		for _, p := range compile.Problems(append(exemptFrom(t), exemptionFrom(t, "x", "", test.ref))) {
			if !strings.HasPrefix(p.Field, "spec.policyRefs") {
				continue
			}
			if p.Severity != rule.Warning || p.What != test.what || p.Do != test.do {
				t.Errorf("%s: %s, want %q (%q)", test.reason, p, test.what, test.do)
			}
			// It is said once.
			test.what = ""
		}
		if test.what != "" {
			t.Errorf("%s: nothing is said, want %q", test.reason, test.what)
		}
	}
	const text = `{apiVersion: usher.dev/v1alpha1, kind: ClusterPolicyCandidate, metadata: {name: c}, spec: {remove: true, replaces: {kind: ClusterObjectPolicy, name: %s}}}`
	for name, want := range map[string]string{"open": "", "nope": "no ClusterObjectPolicy nope is among the policies given: it is not known whether the candidate replaces anything; check it together with the policy in force (usher check -p FILE), or correct the name"} {
		said := ""
		for _, p := range compile.Problems(append(exemptFrom(t), compile.Policy(decode(t, name, fmt.Appendf(nil, text, name))))) {
			if p.Field == "spec.replaces.name" {
				said += p.What + "; " + p.Do
			}
		}
		if said != want {
			t.Errorf("a candidate for %s: %q, want %q", name, said, want)
		}
	}
}

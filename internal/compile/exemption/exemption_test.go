package exemption_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/internal/compile"
)

// exempting is the spec of an exemption without mistakes, with fields in place of others.
func exempting(fields ...string) string {
	spec := []string{"policyRefs: [{kind: ClusterObjectPolicy, name: team}]", "reason: a migration", "owner: payments", "expiresAt: '2030-01-31T12:00:00Z'"}
	for _, field := range fields {
		name, value, _ := strings.Cut(field, ":")
		for i := range spec {
			if strings.HasPrefix(spec[i], name+":") {
				spec = append(spec[:i], spec[i+1:]...)
				break
			}
		}
		if strings.TrimSpace(value) != "" {
			spec = append(spec, field)
		}
	}
	return "{" + strings.Join(spec, ", ") + "}"
}

func TestExemptionMistakes(t *testing.T) {
	t.Parallel()
	const cluster, namespaced = "ClusterPolicyExemption", "PolicyExemption"
	pods := "resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [pods]"
	for _, test := range []struct {
		reason, kind, spec string
		// inForce says that the exemption counts nevertheless.
		inForce bool
		want    []string
	}{
		{"none", cluster, exempting(), true, nil},
		{"all fields", cluster, exempting("policyRefs: [{kind: ClusterObjectPolicy, name: 'te*', validations: [a, 'spec.validations[1]']}]", "matchConstraints: {"+pods+"}]}",
			"matchConditions: [{name: a, expression: 'namespaceObject.metadata.name == object.metadata.namespace'}]", "subjects: [{users: [jane]}]", "images: ['registry.example/*']", "action: Warn"), true, nil},
		{"no policies", cluster, exempting("policyRefs:"), false, []string{"error spec.policyRefs: missing: the exemption is from no policy"}},
		{"no kind", cluster, exempting("policyRefs: [{name: a}]"), false, []string{"error spec.policyRefs[0].kind: missing"}},
		{"no name", cluster, exempting("policyRefs: [{kind: ClusterObjectPolicy}]"), false, []string{"error spec.policyRefs[0].name: missing"}},
		{"not a kind of policies that decide about objects", cluster, exempting("policyRefs: [{kind: ClusterAuthorizationPolicy, name: a}]"), false, []string{"error spec.policyRefs[0].kind: nothing is exempt from a ClusterAuthorizationPolicy"}},
		{"two stars", cluster, exempting("policyRefs: [{kind: ClusterObjectPolicy, name: '*a*'}]"), false, []string{`error spec.policyRefs[0].name: "*a*" has more than one *`}},
		{"an empty validation", cluster, exempting("policyRefs: [{kind: ClusterObjectPolicy, name: a, validations: ['']}]"), false, []string{"error spec.policyRefs[0].validations[0]: it is empty"}},
		{"validations of a policy without any", cluster, exempting("policyRefs: [{kind: OverridePolicy, name: a, validations: [b]}]"), true, []string{"mistake spec.policyRefs[0].validations: policies of the kind OverridePolicy have no validations"}},
		{"images of a policy that mutates", cluster, exempting("policyRefs: [{kind: MutatingAdmissionPolicy, name: a}]", "images: [a/b]"), true,
			[]string{"mistake spec.images: policies of the kind MutatingAdmissionPolicy cannot be applied to some containers only: requests are not exempt from them"}},
		{"no reason", cluster, exempting("reason:"), false, []string{"error spec.reason: missing"}},
		{"a reason of blanks", cluster, exempting("reason: ' '"), false, nil},
		{"no owner", cluster, exempting("owner:"), false, []string{"error spec.owner: missing"}},
		{"no end", cluster, exempting("expiresAt:"), false, []string{"error spec.expiresAt: missing: exemptions end"}},
		{"an unknown action", cluster, exempting("action: Deny"), false, []string{`error spec.action: "Deny" is not an action`}},
		{"no image", cluster, exempting("images: ['']"), false, []string{"error spec.images[0]: missing"}},
		{"an image with two stars", cluster, exempting("images: ['*/a:*']"), false, []string{`error spec.images[0]: "*/a:*" has more than one *`}},
		{"images of any registry", cluster, exempting("images: ['registry.example*']"), true, []string{`warning spec.images[0]: "registry.example*" matches images of any registry whose name begins so`}},
		{"every image", cluster, exempting("images: ['*']"), true, []string{"warning spec.images[0]: the pattern matches every image: no container is validated"}},
		{"a condition that is no expression", cluster, exempting("matchConditions: [{name: a, expression: 'object.'}]"), false, nil},
		{"a condition with params", cluster, exempting("matchConditions: [{name: a, expression: 'params.x == 1'}]"), false, nil},
		{"a condition that is no bool", cluster, exempting("matchConditions: [{name: a, expression: '1'}]"), false, nil},
		{"two conditions of one name", cluster, exempting("matchConditions: [{name: a, expression: 'true'}, {name: a, expression: 'true'}]"), false, []string{`error spec.matchConditions[1].name: there is another condition "a"`}},
		{"subjects that are nobody", cluster, exempting("subjects: [{}]"), false, []string{"error spec.subjects[0]: nobody is named"}},
		{"a selector that is none", cluster, exempting("matchConstraints: {objectSelector: {matchExpressions: [{key: a, operator: Is}]}}"), false, nil},
		{"a resource rule without resources", cluster, exempting("matchConstraints: {resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: [CREATE]}]}"), false, nil},

		{"of a namespace", namespaced, exempting(), true, nil},
		{"of a namespace, from its own policy", namespaced, exempting("policyRefs: [{kind: ObjectPolicy, name: a}]"), true, nil},
		{"of a namespace, from another kind", namespaced, exempting("policyRefs: [{kind: ValidatingAdmissionPolicy, name: a}]"), false, []string{"error spec.policyRefs[0].kind: a namespace exempts nothing from a ValidatingAdmissionPolicy"}},
		{"of a namespace, from a kind of the cluster", namespaced, exempting("policyRefs: [{kind: ClusterOverridePolicy, name: '*'}]"), false, []string{"error spec.policyRefs[0].kind: a namespace exempts nothing from a ClusterOverridePolicy"}},
		{"of a namespace, for objects of the cluster", namespaced, exempting("matchConstraints: {" + pods + ", scope: Cluster}]}"), true,
			[]string{"mistake spec.matchConstraints.resourceRules: a PolicyExemption is for objects of its own namespace: no request in scope Cluster is exempt"}},
		{"of a namespace that is not given", namespaced + " ", exempting(), false, nil},
	} {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			metadata := ""
			if test.kind == namespaced {
				metadata = ", namespace: shop"
			}
			text := fmt.Sprintf("apiVersion: usher.dev/v1alpha1\nkind: %s\nmetadata: {name: p%s}\nspec: %s", test.kind, metadata, test.spec)
			raw, err := yaml.YAMLToJSON([]byte(text))
			if err != nil {
				t.Fatal(err)
			}
			policy, err := api.Decode(raw)
			if err != nil {
				t.Fatal(err)
			}
			c := compile.Policy(policy)
			if inForce := c.Exemption != nil; inForce != test.inForce {
				t.Errorf("in force is %t, want %t; problems are %v", inForce, test.inForce, c.Problems)
			}
			var got []string
			for _, p := range c.Problems {
				got = append(got, string(p.Severity)+" "+p.Field+": "+p.What)
				if p.Do == "" {
					t.Errorf("%s: what to do is missing", p)
				}
			}
			if !test.inForce && len(got) == 0 {
				t.Error("it is not in force, and there is no problem")
			}
			if test.want == nil && !test.inForce {
				return
			}
			if d := cmp.Diff(test.want, got); d != "" {
				t.Errorf("problems (-want +got):\n%s", d)
			}
		})
	}
}

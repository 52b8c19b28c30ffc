package kcloudlabs_test

import (
	"fmt"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/internal/compile"
)

// TestSecretsThatAreTold: what can tell what is in a Secret is a warning, as in object policies.
func TestSecretsThatAreTold(t *testing.T) {
	t.Parallel()
	const (
		validate = `{apiVersion: policy.kcloudlabs.io/v1alpha1, kind: ClusterValidatePolicy, metadata: {name: p}, spec: {resourceSelectors: [%s], validateRules: [%s]}}`
		override = `{apiVersion: policy.kcloudlabs.io/v1alpha1, kind: OverridePolicy, metadata: {name: p, namespace: shop}, spec: {resourceSelectors: [%s], overrideRules: [{overriders: %s}]}}`
		secrets  = `{apiVersion: v1, kind: Secret}`
		pods     = `{apiVersion: v1, kind: Pod}`
		read     = "users whose requests are decided, and anyone who reads audit logs, can read it"
		object   = "spec.validateRules[0].cue: it can contain what is in a Secret, by object.data: " + read
	)
	cue := func(source string) string { return fmt.Sprintf("{cue: %q}", "object: _ @tag(object)\n"+source) }
	condition := func(message string) string {
		return fmt.Sprintf(`{template: {type: condition, condition: {affectMode: reject, cond: Equal, dataRef: {from: current, path: /data/a}, value: {string: b}, message: %q}}}`, message)
	}
	valueRef := func(kind, path string) string {
		return fmt.Sprintf(`{template: {type: labels, operation: add, path: team, valueRef: {from: k8s, path: %s, k8s: {apiVersion: v1, kind: %s, namespace: shop, name: a}}}}`, path, kind)
	}
	for _, test := range []struct{ reason, kind, selectors, rule, told string }{
		{"a message of CUE", validate, secrets, cue(`validate: {valid: object.data.a != "b", reason: "not \(object.data.a)"}`), object},
		{"of all kinds", validate, "", cue(`validate: {valid: object.data.a != "b", reason: "not \(object.data.a)"}`), object},
		{"under a condition", validate, secrets, cue("validate: {\nif object.data.a != \"b\" {valid: false, reason: \"not \\(object.data.a)\"}\n}"), object},
		{"by other fields", validate, secrets, cue("a: object.data.a\nb: \"not \\(a)\"\nc: b + \"!\"\nvalidate: {valid: a != \"b\", reason: c}"), object},
		{"by a clause", validate, secrets, cue("let a = \"not \\(object.data.a)\"\nvalidate: {valid: object.data.a != \"b\", reason: a}"), object},
		{"a warning", validate, secrets, cue(`validate: {valid: true, warnings: ["is \(object.data.a)"]}`), object},
		{"the decision alone", validate, secrets, cue("a: object.data.a\nvalidate: {valid: len(a) > 8, reason: \"too short\"}"), ""},
		{"a name", validate, secrets, cue(`validate: {valid: object.data.a != "b", reason: "not \(object.metadata.name)"}`), ""},
		{"another kind", validate, pods, cue(`validate: {valid: object.data.a != "b", reason: "not \(object.data.a)"}`), ""},
		{"a message of a template", validate, secrets, condition(`\(object.data.a) is wrong`), "spec.validateRules[0].template.condition.message: it can contain what is in a Secret, by object.data: " + read},
		{"a message without placeholders", validate, secrets, condition("it is wrong"), ""},
		{"a value that is copied", override, pods, valueRef("Secret", "/data/a"), "spec.overrideRules[0].overriders.template.valueRef.path: it can contain what is in a Secret, by Secret.data: anyone who may read the changed object can read it"},
		{"the name of the Secret", override, pods, valueRef("Secret", "/metadata/name"), ""},
		{"another kind that is copied", override, pods, valueRef("ConfigMap", "/data/a"), ""},
	} {
		text, err := yaml.YAMLToJSON([]byte(fmt.Sprintf(test.kind, test.selectors, test.rule)))
		if err != nil {
			t.Fatalf("%s: %v", test.reason, err)
		}
		policy, err := api.Decode(text)
		if err != nil {
			t.Fatalf("%s: %v", test.reason, err)
		}
		var told []string
		for _, p := range compile.Policy(policy).Problems {
			if strings.Contains(p.What, "in a Secret") {
				told = append(told, p.Field+": "+p.What)
			}
			if p.Severity == "error" {
				t.Errorf("%s: %s", test.reason, p)
			}
		}
		if got := strings.Join(told, "; "); got != test.told {
			t.Errorf("%s: told\n%s\nwant\n%s", test.reason, got, test.told)
		}
	}
}

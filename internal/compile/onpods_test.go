package compile_test

import (
	"fmt"
	"testing"

	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/internal/compile"
)

// TestOnPods: policies that do not say whether they see the pods of workloads warn of them, in audits and comparisons.
func TestOnPods(t *testing.T) {
	t.Parallel()
	const text = `{"apiVersion":"usher.dev/v1alpha1","kind":"ClusterObjectPolicy","metadata":{"name":"p"},"spec":{%s
		"matchConstraints":{"resourceRules":[
			{"apiGroups":[""],"apiVersions":["v1"],"operations":["CREATE"],"resources":["%s"]},
			{"apiGroups":["apps"],"apiVersions":["v1"],"operations":["CREATE"],"resources":["deployments"]}]},
		"validations":[{"expression":"has(object.metadata.labels)"}]}}`
	for _, test := range []struct {
		reason, spec, resource string
		warns                  bool
	}{
		{"it does not say", "", "pods", true},
		{"it is off", `"podTemplates":"Off",`, "pods", false},
		{"it warns already", `"podTemplates":"Warn",`, "pods", true},
		{"it is not for pods", "", "services", false},
		{"it is suspended", `"suspend":true,`, "pods", false},
	} {
		policy, err := api.Decode(fmt.Appendf(nil, text, test.spec, test.resource))
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		for _, r := range compile.Order(compile.OnPods([]compile.Compiled{compile.Policy(policy)})) {
			if r.Pod != nil && r.Pod.Warns {
				found++
			}
		}
		if (found == 1) != test.warns || found > 1 {
			t.Errorf("%s: %d rules for the pods of workloads", test.reason, found)
		}
	}
}

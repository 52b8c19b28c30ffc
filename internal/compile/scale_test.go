package compile_test

import (
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/internal/compile"
)

// TestObjectPoliciesSeeScale: policies about replicas are for the subresource that kubectl scale
// writes.
func TestObjectPoliciesSeeScale(t *testing.T) {
	t.Parallel()
	tests := []struct {
		resources, expression string
		warned                bool
		reason                string
	}{
		{"[deployments]", "object.spec.replicas > 1", true, "kubectl scale is not seen"},
		{"[deployments, deployments/scale]", "object.spec.replicas > 1", false, "it is seen"},
		{"['*/*']", "object.spec.replicas > 1", false, "everything is seen"},
		{"[deployments]", "object.spec.paused == false", false, "the policy is about something else"},
		{"[daemonsets]", "object.spec.replicas > 1", false, "nobody scales them"},
	}
	for _, test := range tests {
		text, err := yaml.YAMLToJSON([]byte(`
apiVersion: usher.dev/v1alpha1
kind: ClusterObjectPolicy
metadata: {name: p}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: [UPDATE], resources: ` + test.resources + `}]}
  validations: [{expression: "` + test.expression + `"}]
`))
		if err != nil {
			t.Fatal(err)
		}
		decoded, err := api.Decode(text)
		if err != nil {
			t.Fatal(err)
		}
		c := compile.Options{}.Policy(t.Context(), decoded)
		problems := compile.Unscaled([]compile.Compiled{c})
		if len(c.Problems) > 0 || (len(problems) > 0) != test.warned {
			t.Errorf("%s: problems %v, warnings %v, expected one: %t", test.reason, c.Problems, problems, test.warned)
		}
	}
}

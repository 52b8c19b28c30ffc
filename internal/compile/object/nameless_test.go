package object_test

import (
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/internal/compile"
)

// TestDeletionsWithoutNames: a rule that is for deletions of objects with certain names is not for those of a
// collection, which is said.
func TestDeletionsWithoutNames(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		reason, rule string
		warned       bool
	}{
		{"a name", "operations: [DELETE], resourceNames: [quota]", true},
		{"among other operations", "operations: [UPDATE, DELETE], resourceNames: [quota]", true},
		{"every name", "operations: [DELETE]", false},
		{"other operations", "operations: [CREATE, UPDATE], resourceNames: [quota]", false},
	} {
		raw, err := yaml.YAMLToJSON([]byte(`{apiVersion: usher.dev/v1alpha1, kind: ClusterObjectPolicy, metadata: {name: p}, spec: {
			matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], resources: [resourcequotas], ` + row.rule + `}]},
			validations: [{expression: "request.userInfo.username == 'ann'"}]}}`))
		if err != nil {
			t.Fatal(err)
		}
		p, err := api.Decode(raw)
		if err != nil {
			t.Fatal(err)
		}
		_, problems := compile.Policies([]api.Policy{p})
		warned := false
		for _, p := range problems {
			warned = warned || strings.Contains(p.What, "name no object") && p.Field == "spec.matchConstraints.resourceRules[0].resourceNames"
		}
		if warned != row.warned || len(problems) > 1 {
			t.Errorf("%s: %v", row.reason, problems)
		}
	}
}

package condition_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/usher-dev/usher/api/kcloudlabs/v1alpha1"
	"github.com/usher-dev/usher/internal/lang/condition"
)

// What API servers accept for cond is what the table of operators holds: nothing is missing
// from it, and nothing else is in it.
func TestOperatorsAreTheEnumOfTheAPI(t *testing.T) {
	t.Parallel()
	crd, err := os.ReadFile("../../../deploy/crds/policy.kcloudlabs.io_clustervalidatepolicies.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var document any
	if err := yaml.Unmarshal(crd, &document); err != nil {
		t.Fatal(err)
	}
	accepted := enumOf(document, "cond")
	if len(accepted) == 0 {
		t.Fatal("the CRD has no enum for cond")
	}
	var known []string
	for _, cond := range condition.Conds() {
		known = append(known, string(cond))
	}
	slices.Sort(accepted)
	slices.Sort(known)
	if d := cmp.Diff(accepted, known); d != "" {
		t.Errorf("the enum in the CRD and the operators differ (-enum +operators):\n%s", d)
	}
}

// enumOf returns the enum of the first property of this name in a schema.
func enumOf(schema any, property string) []string {
	switch node := schema.(type) {
	case map[string]any:
		if found, ok := node[property].(map[string]any); ok {
			var values []string
			list, _ := found["enum"].([]any)
			for _, value := range list {
				values = append(values, value.(string))
			}
			return values
		}
		for _, child := range node {
			if values := enumOf(child, property); values != nil {
				return values
			}
		}
	case []any:
		for _, child := range node {
			if values := enumOf(child, property); values != nil {
				return values
			}
		}
	}
	return nil
}

// An operator that nobody knows is a problem, in either form, and never one of the others.
func TestUnknownOperator(t *testing.T) {
	t.Parallel()
	for _, cond := range []string{"", "Lté", "lte", "LessOrEqual", "Matches"} {
		template := compare(t, "Equal", "/metadata/name", ", value: {string: a}")
		template.Condition.Cond = v1alpha1.Cond(cond)
		program, problems := condition.Compile(template)
		if program != nil || len(problems) != 1 || !strings.Contains(problems[0].What, "unknown cond") || !strings.Contains(problems[0].Do, "use Equal, ") {
			t.Errorf("cond %q: compiled to %v, problems %v", cond, program, problems)
		}
		if source, problems := condition.Render(template); source != "" || len(problems) != 1 {
			t.Errorf("cond %q: rendered to %q, problems %v", cond, source, problems)
		}
	}
}

package trial_test

import (
	"context"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/usher-dev/usher/internal/kind"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/internal/trial"
)

// TestOpenSchemas: a rule that reads a field which the schema of a kind leaves open fails on the objects that are tried, and
// is no mistake.
func TestOpenSchemas(t *testing.T) {
	t.Parallel()
	anything := map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}
	for name, openAPI := range map[string]map[string]any{
		"of objects":  anything,
		"of the spec": {"type": "object", "properties": map[string]any{"spec": anything}},
	} {
		set, err := kind.Defined([]map[string]any{{
			"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": "routes.example.com"},
			"spec": map[string]any{
				"group": "example.com", "scope": "Namespaced", "names": map[string]any{"plural": "routes", "singular": "route", "kind": "Route", "listKind": "RouteList"},
				"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true, "schema": map[string]any{"openAPIV3Schema": openAPI}}},
			},
		}})
		if err != nil {
			t.Fatal(err)
		}
		try := trial.New(trial.Options{Kinds: func(context.Context, *kind.Set, []schema.GroupVersionKind) *kind.Set { return set }})
		problems := try.Problems(t.Context(), admissionPolicy(t, []string{"example.com/v1 routes"}, validations("object.spec.x.y == 2")))
		failing := false
		for _, p := range problems {
			failing = failing || strings.Contains(p.What, "because the rule fails")
			if p.Severity == rule.Mistake {
				t.Errorf("%s: %s: %s", name, p.Severity, p.What)
			}
		}
		if !failing {
			t.Errorf("%s: nothing is said of a rule that fails: %v", name, problems)
		}
	}
}

package object_test

import (
	"fmt"
	"strings"
	"testing"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/engine"
	"github.com/usher-dev/usher/internal/index"
	"github.com/usher-dev/usher/internal/policytest"
)

// TestFieldsOfValidations: a fieldPath counts; else the field is found, for the first validations
// that fail. However many those are, each is told.
func TestFieldsOfValidations(t *testing.T) {
	t.Parallel()
	validations := []string{
		`{expression: "object.spec.replicas > 1", message: own, fieldPath: spec.scale}`,
		`{expression: "object.spec.replicas == 1", message: passes}`,
		`{expression: "request.name == 'other'", message: none}`,
	}
	for i := range 20 {
		validations = append(validations, fmt.Sprintf(`{expression: "object.spec.template.spec.containers.all(c, c.f%d == 'x')", message: m%d}`, i, i))
	}
	rules := stored(t, `{apiVersion: usher.dev/v1alpha1, kind: ClusterObjectPolicy, metadata: {name: p}, spec: {
		matchConstraints: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: ["*"], resources: [deployments]}]},
		validations: [`+strings.Join(validations, ", ")+`]}}`)
	container := map[string]any{}
	for i := range 20 {
		container[fmt.Sprintf("f%d", i)] = "y"
	}
	q := policytest.Request{Operation: usher.Create, Namespace: "x", Object: map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"name": "x", "namespace": "x"},
		"spec": map[string]any{"replicas": int64(1), "template": map[string]any{"spec": map[string]any{"containers": []any{container}}}},
	}}
	r, err := q.For(usher.Validate)
	if err != nil {
		t.Fatal(err)
	}
	d, err := engine.New(index.New(rules), nil, engine.Options{}).Decide(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, f := range d.Findings {
		for _, c := range f.Checks {
			got[c.Message] = c.Field
		}
	}
	want := map[string]string{"own": "spec.scale", "none": ""}
	for i := range 20 {
		// The first 16 that fail without fieldPath are looked into, and "none" is one of them.
		if want[fmt.Sprintf("m%d", i)] = ""; i < 15 {
			want[fmt.Sprintf("m%d", i)] = fmt.Sprintf("spec.template.spec.containers[0].f%d", i)
		}
	}
	if len(got) != len(want) || d.Verdict != usher.Deny {
		t.Errorf("%s with %d checks, want %d", d.Verdict, len(got), len(want))
	}
	for message, field := range want {
		if got[message] != field {
			t.Errorf("%s: field %q, want %q", message, got[message], field)
		}
	}
}

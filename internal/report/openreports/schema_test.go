package openreports_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"sigs.k8s.io/yaml"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/audit/result"
	"github.com/usher-dev/usher/internal/report/openreports"
)

// The definitions of the chart are those of openreports.io: API servers with them accept every
// report, and keep all of it.
func TestReportsHaveTheirSchema(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, a := newCluster(), newAudit()
		for _, namespace := range []string{"", "a"} {
			var all []result.Result
			for i, status := range result.Statuses() {
				for _, severity := range []usher.Severity{"", "critical", "high", "medium", "low", "info", "extreme"} {
					r := about(namespace, "Pod", strings.Repeat("x", i+1), status, "no")
					r.Severity = severity
					r.Exemption = &usher.Exemption{PolicyRef: usher.PolicyRef{Name: "e"}}
					all = append(all, r, result.Result{Status: status, Object: result.Identity{Namespace: namespace}})
				}
			}
			a.set(namespace, 1, all...)
		}
		run(t, c, a, openreports.Options{Limit: 70})
		pass(time.Minute)
		if n := len(c.snapshot()); n != 2 {
			t.Fatalf("%d reports", n)
		}
		for id, r := range c.snapshot() {
			if errs := refusals(t, &r); len(errs) > 0 {
				t.Errorf("%s: %s", id, strings.Join(errs, "; "))
			}
			if r.Annotations[openreports.OmittedAnnotation] == "" || len(r.Results) != 35 {
				t.Errorf("%s has %d results, and %v", id, len(r.Results), r.Annotations)
			}
		}
	})
}

// refusals returns why an API server would reject a report or lose a part of it.
func refusals(t *testing.T, r *openreports.Report) []string {
	t.Helper()
	text, err := os.ReadFile("../../../deploy/helm/usher/openreports/openreports.io_" + strings.ToLower(r.Kind) + "s.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var definition apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(text, &definition); err != nil {
		t.Fatal(err)
	}
	var schema apiextensions.JSONSchemaProps
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(definition.Spec.Versions[0].Schema.OpenAPIV3Schema, &schema, nil); err != nil {
		t.Fatal(err)
	}
	structural, err := structuralschema.NewStructural(&schema)
	if err != nil {
		t.Fatal(err)
	}
	validator, _, err := validation.NewSchemaValidator(&schema)
	if err != nil {
		t.Fatal(err)
	}
	object := map[string]any{}
	text, err = json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &object); err != nil {
		t.Fatal(err)
	}
	var reasons []string
	for _, err := range validation.ValidateCustomResource(nil, object, validator) {
		reasons = append(reasons, err.Error())
	}
	lost := pruning.PruneWithOptions(object, structural, true, structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})
	return append(reasons, lost...)
}

package apply_test

import (
	"math/rand/v2"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apimachinery/pkg/runtime"
	kinds "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/usher-dev/usher/internal/lang/cel/apply"
)

const widgetSchema = `
type: object
properties:
  spec:
    type: object
    properties:
      size: {type: integer}
      ratio: {type: number}
      enabled: {type: boolean}
      port: {x-kubernetes-int-or-string: true}
      labels: {type: object, additionalProperties: {type: string}}
      frozen: {type: object, x-kubernetes-map-type: atomic, properties: {a: {type: string}}}
      names: {type: array, x-kubernetes-list-type: set, items: {type: string}}
      numbers: {type: array, x-kubernetes-list-type: set, items: {type: number}}
      args: {type: array, items: {type: string}}
      parts:
        type: array
        x-kubernetes-list-type: map
        x-kubernetes-list-map-keys: [name, kind, zone]
        items:
          type: object
          required: [name]
          properties:
            name: {type: string}
            kind: {type: string, default: a}
            zone: {type: integer, default: 1}
            nested:
              type: array
              x-kubernetes-list-type: map
              x-kubernetes-list-map-keys: [id]
              items: {type: object, properties: {id: {type: integer}, text: {type: string}}}
      anything: {type: object, x-kubernetes-preserve-unknown-fields: true, properties: {a: {type: object, properties: {b: {type: string}}}}}
      template: {type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true}
      free: {x-kubernetes-preserve-unknown-fields: true}
      lists: {type: object, additionalProperties: {type: array, items: {type: string}}}
  status:
    type: object
    properties: {ready: {type: boolean}}
`

// metaSchema is as much of the metadata of objects as is needed here.
const metaSchema = `
type: object
properties:
  name: {type: string, default: ""}
  labels: {type: object, additionalProperties: {type: string, default: ""}}
  finalizers: {type: array, x-kubernetes-list-type: set, items: {type: string, default: ""}}
  ownerReferences:
    type: array
    x-kubernetes-list-type: map
    x-kubernetes-list-map-keys: [uid]
    items: {type: object, x-kubernetes-map-type: atomic, properties: {uid: {type: string, default: ""}, name: {type: string, default: ""}}}
`

// served is how an API server merges objects of a custom kind: by the OpenAPI that it serves, for
// which it takes the structure of the schema and adds the fields that every object has
// (k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder).
func served(t *testing.T, kind kinds.GroupVersionKind, openAPI map[string]any) managedfields.TypeConverter {
	t.Helper()
	const meta = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
	widget := &spec.Schema{SchemaProps: spec.SchemaProps{Type: []string{"object"}}}
	if openAPI != nil {
		widget = structural(t, openAPI).ToKubeOpenAPI()
		whole := []*spec.Schema{widget}
		if template, ok := widget.Properties["spec"].Properties["template"]; ok {
			whole = append(whole, &template)
		}
		for _, s := range whole {
			s.SetProperty("apiVersion", *spec.StringProperty())
			s.SetProperty("kind", *spec.StringProperty())
			s.SetProperty("metadata", *spec.RefSchema("#/definitions/" + meta))
			if s != widget {
				widget.Properties["spec"].Properties["template"] = *s
			}
		}
	}
	group, version := kind.Group, kind.Version
	widget.AddExtension("x-kubernetes-group-version-kind", []any{map[string]any{"group": group, "version": version, "kind": kind.Kind}})
	converter, err := managedfields.NewTypeConverter(map[string]*spec.Schema{
		"example.shop.v1.Widget": widget, meta: structural(t, tree(t, metaSchema)).ToKubeOpenAPI(),
	}, false)
	if err != nil {
		t.Fatal(err)
	}
	return converter
}

func structural(t *testing.T, openAPI map[string]any) *structuralschema.Structural {
	t.Helper()
	written, props := &apiextensionsv1.JSONSchemaProps{}, &apiextensions.JSONSchemaProps{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(openAPI, written); err != nil {
		t.Fatal(err)
	}
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(written, props, nil); err != nil {
		t.Fatal(err)
	}
	s, err := structuralschema.NewStructural(props)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestCustomKindsMergeAsUpstream merges made-up configurations into made-up custom objects.
func TestCustomKindsMergeAsUpstream(t *testing.T) {
	t.Parallel()
	kind := kinds.GroupVersionKind{Group: "shop.example", Version: "v1", Kind: "Widget"}
	for i, test := range []struct {
		reason string
		schema map[string]any
	}{
		{"declared fields", tree(t, widgetSchema)},
		{"no fields are declared", nil},
		{"nothing but an object", map[string]any{"type": "object"}},
		{"all fields are preserved", map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
	} {
		schema, err := apply.NewTypes().Custom(test.schema)
		if err != nil {
			t.Fatalf("%s: %v", test.reason, err)
		}
		c := &comparison{
			converter: served(t, kind, test.schema),
			schema:    func(kinds.GroupVersionKind) (*apply.Schema, error) { return schema, nil },
		}
		for j := range 1500 {
			if diff := c.generated(kind, rand.New(rand.NewPCG(uint64(i), uint64(j)))); diff != "" {
				t.Fatalf("%s, seed %d: %s", test.reason, j, diff)
			}
		}
		t.Logf("%s: %d merged, %d refused alike, %d merged where upstream refuses the object", test.reason, c.merged, c.refused, c.lenient)
		if c.merged < 1000 {
			t.Errorf("%s: only %d merged: the comparison says little", test.reason, c.merged)
		}
	}
}

func TestCustomRefusesWhatIsNoSchema(t *testing.T) {
	t.Parallel()
	for _, schema := range []map[string]any{
		{"type": "object", "properties": "none"},
		{"type": "object", "properties": map[string]any{"a": map[string]any{"type": "array"}}},
	} {
		if _, err := apply.NewTypes().Custom(schema); err == nil {
			t.Errorf("%v is accepted", schema)
		}
	}
}

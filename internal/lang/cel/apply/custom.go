package apply

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"k8s.io/kube-openapi/pkg/schemaconv"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/structured-merge-diff/v6/schema"
)

const objectMeta = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"

// Custom returns the structure of a custom kind: openAPI is schema.openAPIV3Schema of a version of
// its definition. Nil is a kind whose fields are not declared.
func (t *Types) Custom(openAPI map[string]any) (*Schema, error) {
	root := &spec.Schema{SchemaProps: spec.SchemaProps{Type: spec.StringOrArray{"object"}}}
	if openAPI != nil {
		text, err := json.Marshal(openAPI)
		if err != nil {
			return nil, fmt.Errorf("encode schema: %w", err)
		}
		if err := json.Unmarshal(text, root); err != nil {
			return nil, fmt.Errorf("decode schema: %w", err)
		}
		asResource(root)
		embed(root)
	}
	name := "custom"
	types, err := schemaconv.ToSchemaFromOpenAPI(map[string]*spec.Schema{name: root}, false)
	if err != nil {
		return nil, fmt.Errorf("convert schema: %w", err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	meta, err := t.closure(objectMeta)
	if err != nil {
		return nil, fmt.Errorf("convert schema: %w", err)
	}
	// Both have the types of values whose structure is not declared.
	all := map[string]schema.TypeDef{}
	for _, def := range append(meta.Types, types.Types...) {
		all[def.Name] = def
	}
	return &Schema{types: &schema.Schema{Types: slices.Collect(maps.Values(all))}, root: schema.TypeRef{NamedType: &name}}, nil
}

// asResource declares the fields that every object has.
func asResource(s *spec.Schema) {
	if s.Properties == nil {
		s.Properties = map[string]spec.Schema{}
	}
	s.Properties["apiVersion"] = *spec.StringProperty()
	s.Properties["kind"] = *spec.StringProperty()
	s.Properties["metadata"] = *spec.RefSchema("#/definitions/" + objectMeta)
}

// embed declares these fields in embedded objects, too.
func embed(s *spec.Schema) {
	for name := range s.Properties {
		property := s.Properties[name]
		if embedded, _ := property.Extensions.GetBool("x-kubernetes-embedded-resource"); embedded {
			asResource(&property)
		}
		embed(&property)
		s.Properties[name] = property
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		embed(s.AdditionalProperties.Schema)
	}
	if s.Items != nil && s.Items.Schema != nil {
		embed(s.Items.Schema)
	}
}

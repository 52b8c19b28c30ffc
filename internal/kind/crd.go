package kind

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// objectMeta is the definition of metadata, which schemas of CustomResourceDefinitions leave open.
const objectMeta = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"

// A definition is a CustomResourceDefinition, with the fields that are read.
type definition struct {
	Spec struct {
		Group string `json:"group"`
		Scope string `json:"scope"`
		Names struct {
			Kind       string   `json:"kind"`
			Plural     string   `json:"plural"`
			Singular   string   `json:"singular"`
			ShortNames []string `json:"shortNames"`
		} `json:"names"`
		Versions []struct {
			Name   string `json:"name"`
			Served bool   `json:"served"`
			Schema struct {
				OpenAPIV3Schema *Schema `json:"openAPIV3Schema"`
			} `json:"schema"`
			Subresources map[string]any `json:"subresources"`
		} `json:"versions"`
	} `json:"spec"`
}

// Defined returns the kinds of CustomResourceDefinitions. It ignores other objects.
func Defined(objects []map[string]any) (*Set, error) {
	s := New(nil, map[string]json.RawMessage{}, false)
	for _, object := range objects {
		if object["kind"] != "CustomResourceDefinition" || object["apiVersion"] != "apiextensions.k8s.io/v1" {
			continue
		}
		raw, err := json.Marshal(object)
		if err != nil {
			return nil, err
		}
		var d definition
		if err := json.Unmarshal(raw, &d); err != nil {
			return nil, fmt.Errorf("decode CustomResourceDefinition: %w", err)
		}
		if err := s.define(&d); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *Set) define(d *definition) error {
	for i := range d.Spec.Versions {
		v := &d.Spec.Versions[i]
		if !v.Served {
			continue
		}
		r := Resource{
			Group: d.Spec.Group, Version: v.Name, Kind: d.Spec.Names.Kind, Name: d.Spec.Names.Plural,
			Namespaced: d.Spec.Scope == "Namespaced", Short: append([]string{d.Spec.Names.Singular}, d.Spec.Names.ShortNames...),
			Verbs: []string{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"},
		}
		s.add(r)
		for _, sub := range slices.Sorted(maps.Keys(v.Subresources)) {
			if sub == "status" {
				below := r
				below.Name += "/" + sub
				s.add(below)
			}
		}
		if of := v.Schema.OpenAPIV3Schema; of != nil {
			whole := *of
			whole.Properties = maps.Clone(of.Properties)
			if whole.Properties == nil {
				whole.Properties = map[string]*Schema{}
			}
			whole.Properties["apiVersion"], whole.Properties["kind"] = &Schema{Type: "string"}, &Schema{Type: "string"}
			whole.Properties["metadata"] = &Schema{Ref: "#/components/schemas/" + objectMeta}
			if err := s.Define(r.Of(), &whole); err != nil {
				return err
			}
		}
	}
	return nil
}

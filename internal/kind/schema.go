package kind

import (
	"bytes"
	"encoding/json"
	"slices"
)

// A Schema defines the allowed values: it is the part of OpenAPI v3 that API servers and
// CustomResourceDefinitions use. Definitions are named in Ref and looked up in a [Set].
type Schema struct {
	Ref        string             `json:"$ref,omitempty"`
	AllOf      []*Schema          `json:"allOf,omitempty"`
	OneOf      []*Schema          `json:"oneOf,omitempty"`
	AnyOf      []*Schema          `json:"anyOf,omitempty"`
	Type       string             `json:"type,omitempty"`
	Format     string             `json:"format,omitempty"`
	Properties map[string]*Schema `json:"properties,omitempty"`
	Items      *Schema            `json:"items,omitempty"`
	// Values is the schema of the values of maps.
	Values   *Values  `json:"additionalProperties,omitempty"`
	Enum     []any    `json:"enum,omitempty"`
	Required []string `json:"required,omitempty"`
	Nullable bool     `json:"nullable,omitempty"`
	// Default is what API servers write where the field is missing. Those of Kubernetes itself publish a zero value for
	// fields that they require, too.
	Default any `json:"default,omitempty"`
	// IntOrString is the extension of API servers for a number or a text.
	IntOrString bool `json:"x-kubernetes-int-or-string,omitempty"`
	// Open says that there may be fields that are not in the schema.
	Open bool `json:"x-kubernetes-preserve-unknown-fields,omitempty"`
	// Embedded says that the value is an object with its own metadata.
	Embedded bool `json:"x-kubernetes-embedded-resource,omitempty"`
}

// Values is the schema of the values of a map; nil if they may be anything.
type Values struct{ Schema *Schema }

// UnmarshalJSON reads a schema, or true or false, which are valid in its place.
func (v *Values) UnmarshalJSON(raw []byte) error {
	if raw = bytes.TrimSpace(raw); len(raw) == 0 || raw[0] != '{' {
		return nil
	}
	return json.Unmarshal(raw, &v.Schema)
}

// MarshalJSON is the inverse of UnmarshalJSON.
func (v *Values) MarshalJSON() ([]byte, error) {
	if v.Schema == nil {
		return []byte("true"), nil
	}
	return json.Marshal(v.Schema)
}

// Simplify returns a schema without redundant parts: it unwraps references in lists with one item. It has no defaults:
// those of Kubernetes itself are of fields that are not required.
func (s *Schema) Simplify() *Schema {
	if s == nil {
		return nil
	}
	if len(s.AllOf) == 1 && s.AllOf[0].Ref != "" {
		return &Schema{Ref: s.AllOf[0].Ref}
	}
	simple := *s
	simple.Default = nil
	simple.Items = s.Items.Simplify()
	if s.Values != nil {
		simple.Values = &Values{Schema: s.Values.Schema.Simplify()}
	}
	if len(s.Properties) > 0 {
		simple.Properties = make(map[string]*Schema, len(s.Properties))
		for name, field := range s.Properties {
			simple.Properties[name] = field.Simplify()
		}
	}
	return &simple
}

// A Type is a JSON type, or a type that only schemas distinguish.
type Type string

// Types of values. Anything is the type of a schema without restrictions.
const (
	Anything Type = ""
	Object   Type = "object"
	Map      Type = "map"
	List     Type = "array"
	Text     Type = "string"
	Number   Type = "number"
	Integer  Type = "integer"
	Bool     Type = "boolean"
	// Either is a number or a text, such as a port.
	Either Type = "int-or-string"
	// Quantity is one of CPU or memory: users may write a number, API servers write text.
	Quantity Type = "quantity"
)

// Kind returns the type of the values of a schema without a reference.
func (s *Schema) Kind() Type {
	if s.IntOrString || s.Format == string(Either) {
		return Either
	}
	if either := slices.Concat(s.OneOf, s.AnyOf); s.Type == "" && len(either) > 1 {
		has := func(kind string) bool {
			return slices.ContainsFunc(either, func(o *Schema) bool { return o.Type == kind })
		}
		switch {
		case has("string") && has("number"):
			return Quantity
		case has("string") && has("integer"):
			return Either
		}
		return Anything
	}
	switch {
	case len(s.Properties) > 0:
		return Object
	case s.Type == "object" && s.Values != nil && s.Values.Schema != nil:
		return Map
	case s.Type == "object":
		return Map
	}
	return Type(s.Type)
}

// hasDefault reports whether API servers write a value where the field is missing.
func (s *Schema) hasDefault() bool {
	switch v := s.Default.(type) {
	case nil:
		return false
	case string:
		return v != ""
	case float64:
		return v != 0
	case map[string]any:
		return len(v) > 0
	}
	return true
}

// Texts returns those of the values that a schema lists that are texts.
func (s *Schema) Texts() []string {
	var texts []string
	for _, v := range s.Enum {
		if text, ok := v.(string); ok && text != "" {
			texts = append(texts, text)
		}
	}
	return texts
}
